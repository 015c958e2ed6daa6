-- Objectives of agents, watched conversation by conversation.

-- One row is an objective of a group as a running collector last saw it: what evidence there is that it is broken. It is made of the final results in event order, and made anew when one of them changes.
CREATE TABLE monitors (
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    objective VARCHAR NOT NULL, -- name of the objective
    k INTEGER NOT NULL, -- the k of pass^k
    target DOUBLE NOT NULL, -- pass^k that is promised
    p0 DOUBLE NOT NULL, -- pass rate below which the objective is broken: target to the power of 1 / k
    alpha DOUBLE NOT NULL, -- probability of a false alarm, ever, at most
    method VARCHAR NOT NULL, -- pooled or per_case
    n BIGINT NOT NULL, -- evaluated conversations seen
    c BIGINT NOT NULL, -- correct ones among them
    e_value DOUBLE NOT NULL, -- evidence that the objective is broken; 1 says nothing; kept within 1e-300 and 1e300
    log_e DOUBLE NOT NULL, -- its natural logarithm, without bounds
    largest DOUBLE NOT NULL, -- largest e-value so far, kept within the same bounds
    alarmed_at TIMESTAMP_NS, -- end of the conversation at which the e-value first reached 1 / alpha; null while it has not
    detector DOUBLE NOT NULL, -- value of the change detector since its last alarm
    target_run_length DOUBLE NOT NULL, -- conversations between false alarms of change on average, at least; the alarm is at this value
    changes BIGINT NOT NULL, -- alarms of the change detector so far
    changed_at TIMESTAMP_NS, -- end of the conversation at which the change detector last raised an alarm
    watermark TIMESTAMP_NS NOT NULL, -- results up to this time are final and were seen
    computed_at TIMESTAMP_NS NOT NULL -- when the row was written
);
