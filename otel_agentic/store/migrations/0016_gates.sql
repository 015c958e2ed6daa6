-- What gates compare with.

-- One row is a baseline: what was measured of each agent when it was saved. A name that is saved again takes the place of the older one.
CREATE TABLE gate_baselines (
    name VARCHAR NOT NULL, -- its name
    saved_at TIMESTAMP_NS NOT NULL, -- when it was saved
    conversations BIGINT NOT NULL, -- closed conversations that it was made of
    evaluations VARCHAR[] NOT NULL, -- evaluations that their scores belong to
    definition JSON NOT NULL -- attempts by case and means of metrics by agent, as in a baseline file
);
