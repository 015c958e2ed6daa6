-- The judge's memory and budget, what people say of the same answers, and how far the two agree.
ALTER TABLE judge_calls ADD COLUMN judge_version VARCHAR;
ALTER TABLE judge_calls ADD COLUMN cleared BOOLEAN;
COMMENT ON TABLE judge_calls IS 'One row is what a judge said of one question; it is also the cache, and what the budget is counted from.';
COMMENT ON COLUMN judge_calls.content_hash IS 'hash of judge version and everything that was asked';
COMMENT ON COLUMN judge_calls.judge_version IS 'judge version, null when written before this was kept';
COMMENT ON COLUMN judge_calls.latency_s IS 'seconds of all requests together';
COMMENT ON COLUMN judge_calls.cleared IS 'true when taken out of the cache: it counts in the budget window still; null, which means false, otherwise';

-- One row is a verdict of a person on a conversation, or on one of its turns.
CREATE TABLE human_verdicts (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- newest conversation revision when the verdict was read
    turn_index INTEGER, -- turn (0-based), null for the conversation as a whole
    verdict BOOLEAN NOT NULL, -- true for pass
    random_sample BOOLEAN NOT NULL, -- true when it was said that the labelled conversations are a random sample
    source VARCHAR NOT NULL, -- file and line
    imported_at TIMESTAMP_NS NOT NULL -- when it was read
);

-- One row is a comparison of a judge with people, on turns or on conversations. A pass is the positive; what has no data is null.
CREATE TABLE judge_calibrations (
    calibration_id VARCHAR NOT NULL, -- one for each run of `judge calibrate`
    evaluation_id VARCHAR NOT NULL, -- evaluation: judge, settings and truth
    judge VARCHAR NOT NULL, -- judge name
    judge_version VARCHAR NOT NULL, -- judge version
    model VARCHAR, -- model that answered, null for a judge without one
    target VARCHAR NOT NULL, -- turn or conversation
    n BIGINT NOT NULL, -- verdicts compared
    both_pass BIGINT NOT NULL, -- judge and people pass
    false_pass BIGINT NOT NULL, -- the judge passes, people fail
    false_fail BIGINT NOT NULL, -- the judge fails, people pass
    both_fail BIGINT NOT NULL, -- judge and people fail
    agreement DOUBLE, -- share of equal verdicts
    agreement_lower DOUBLE, -- lower bound
    agreement_upper DOUBLE, -- upper bound
    kappa DOUBLE, -- Cohen's kappa: agreement beyond chance
    kappa_lower DOUBLE, -- lower bound
    kappa_upper DOUBLE, -- upper bound
    sensitivity DOUBLE, -- share of what people pass that the judge passes
    sensitivity_lower DOUBLE, -- lower bound
    sensitivity_upper DOUBLE, -- upper bound
    specificity DOUBLE, -- share of what people fail that the judge fails
    specificity_lower DOUBLE, -- lower bound
    specificity_upper DOUBLE, -- upper bound
    interval_method VARCHAR NOT NULL, -- how the intervals of the rates were made
    level DOUBLE NOT NULL, -- level of the intervals
    threshold DOUBLE NOT NULL, -- answer threshold in force
    best_threshold DOUBLE, -- threshold with the highest Youden index on these labels
    curve JSON NOT NULL, -- agreement, sensitivity and specificity at each distinct score
    not_judged JSON NOT NULL, -- labelled, but without a verdict of the judge: counts by reason
    random_sample BOOLEAN NOT NULL, -- true when it was said that the labelled conversations are a random sample
    labels VARCHAR[] NOT NULL, -- files of labels
    calibrated_at TIMESTAMP_NS NOT NULL -- when
);

-- One row is a labelled conversation or turn with what the judge said of it, as compared by a calibration.
CREATE TABLE calibration_verdicts (
    calibration_id VARCHAR NOT NULL, -- calibration
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn (0-based), null for the conversation as a whole
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case
    human BOOLEAN NOT NULL, -- verdict of the person, true for pass
    judge_outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    judge_reason VARCHAR, -- why it failed or was not evaluated
    judge_score DOUBLE, -- score of the answer, of a conversation the lowest of its answers; null when none was judged
    random_sample BOOLEAN NOT NULL -- true when it was said that the labelled conversations are a random sample
);
