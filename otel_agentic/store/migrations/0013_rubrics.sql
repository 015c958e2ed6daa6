-- What a judge's model was asked about, and verdicts that are no scores: labels, and lists of texts.
ALTER TABLE judge_calls ADD COLUMN metric VARCHAR;
ALTER TABLE judge_calls ADD COLUMN label VARCHAR;
ALTER TABLE judge_calls ADD COLUMN texts VARCHAR[];
COMMENT ON COLUMN judge_calls.metric IS 'prompt that was asked with: answer, parameter, utilization, or a rubric of an evaluator; null when written before this was kept';
COMMENT ON COLUMN judge_calls.score IS 'score, 0 to 1 unless the rubric says otherwise; null when the judge failed, or was asked for a label or for texts';
COMMENT ON COLUMN judge_calls.label IS 'label, null when none was asked for';
COMMENT ON COLUMN judge_calls.texts IS 'texts, null when none were asked for';
