-- What spans tell beside what was said: the tools that an agent was given, models and their tokens, plans, when calls ran, the state in the end. All of it is null in rows that were written before this was kept.
ALTER TABLE conversations ADD COLUMN definitions_hash VARCHAR;
COMMENT ON COLUMN conversations.definitions_hash IS 'tools that the agent was given, see tool_definitions; null where that was not captured';
ALTER TABLE conversations ADD COLUMN final_state JSON;
COMMENT ON COLUMN conversations.final_state IS 'state in which the conversation left the world, as its last span that names one tells; null where none does';
ALTER TABLE turns ADD COLUMN models JSON;
COMMENT ON COLUMN turns.models IS 'models asked, a list: model, calls, failed, input_tokens, output_tokens, priced_calls (calls of which no tokens are missing)';
ALTER TABLE turns ADD COLUMN plans VARCHAR[];
COMMENT ON COLUMN turns.plans IS 'plans that the agent wrote down, in order';
ALTER TABLE tool_calls ADD COLUMN started_at TIMESTAMP_NS;
COMMENT ON COLUMN tool_calls.started_at IS 'start of its span, null where it has none';
ALTER TABLE tool_calls ADD COLUMN ended_at TIMESTAMP_NS;
COMMENT ON COLUMN tool_calls.ended_at IS 'end of its span, null where it has none';

-- One row is a tool as agents were given it. Conversations whose agents were given the same tools share their rows; the hash of a list without tools has none.
CREATE TABLE tool_definitions (
    definitions_hash VARCHAR NOT NULL, -- hash of all tools that are given together, see conversations
    name VARCHAR NOT NULL, -- tool name
    parameters JSON -- JSON schema of its parameters, null where only the name was recorded
);
