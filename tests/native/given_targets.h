/* Random targets that are read at once, for random_models.c, which includes this file. */

#pragma once

/* A target, and what reading it gives. */
typedef struct {
    int32_t length, tokens[MAX_TOKENS];
    float log_ps[MAX_TOKENS], *attention;
} reading;

/* Reads n targets together. Returns 1, NO_MEMORY or NOT_FINITE. */
static int read_targets(const random_model *r, int n, const task *tasks, reading *readings) {
    session s;
    int32_t lengths[MAX_TASKS], tokens[MAX_TASKS * MAX_TOKENS], total = 0;
    size_t floats_read = 0;
    for (int i = 0; i < n; total += lengths[i++]) {
        lengths[i] = readings[i].length, floats_read += attention_floats(tasks + i, lengths[i]);
        memcpy(tokens + total, readings[i].tokens, sizeof(int32_t) * lengths[i]);
    }
    int32_t *own[] = {copied(lengths, sizeof(int32_t) * n), copied(tokens, sizeof(int32_t) * total)};
    float *log_ps = exact(sizeof(float) * total), *attention = exact(sizeof(float) * floats_read);
    int status = session_open(&s, r, 1) && session_join_unrestricted(&s, n, tasks) && session_record(&s, n, tasks);
    if (status) {
        CHECK(batch_score(&s.m, s.b, n + 1, own[0], own[1], log_ps, attention) == WRONG_ROWS);
        status = batch_score(&s.m, s.b, n, own[0], own[1], log_ps, attention);
        if (status == 1) CHECK(batch_score(&s.m, s.b, n, own[0], own[1], log_ps, attention) == WRONG_ROWS);
    }
    float *from = attention, *log_p = log_ps;
    for (int i = 0; i < n; log_p += lengths[i++]) {
        size_t size = attention_floats(tasks + i, lengths[i]);
        if (status == 1) memcpy(readings[i].log_ps, log_p, sizeof(float) * lengths[i]);
        readings[i].attention = status == 1 ? copied(from, sizeof(float) * size) : NULL, from += size;
    }
    session_close(&s), free(own[0]), free(own[1]), free(log_ps), free(attention);
    return status;
}

/* Checks a reading against the steps of its target, one token at a time. Returns 1 or NO_MEMORY. */
static int check_steps(const random_model *r, const task *t, const reading *one) {
    session s;
    int columns = r->m.output.outputs, status = session_open(&s, r, 1) && session_join_unrestricted(&s, 1, t);
    float *logits = exact(sizeof(float) * columns), sum, none[1];
    for (int j = 0; status && j < one->length; j++) {
        status = batch_step(&s.m, s.b, 1, j ? one->tokens + j - 1 : &r->m.bos, NULL, 0, logits, &sum, none, (int32_t *)none);
        if (!status) break;
        CHECK(one->log_ps[j] == log_p_of(logits[one->tokens[j]], sum) && one->log_ps[j] <= 0);
        for (int h = 0; h < t->n_heads; h++) {
            const float *weights = one->attention + ((size_t)j * t->n_heads + h) * t->n_source;
            double total = 0;
            for (int i = 0; i < t->n_source; i++) total += weights[i];
            CHECK(fabs(total - 1) < 1e-4);
        }
    }
    session_close(&s), free(logits);
    return status;
}

/* The log-probabilities of targets are those of their steps, whatever is read with them. Returns 0 if memory is
   exhausted. */
static int reading_laws(const random_model *r, choices *c, reading *readings) {
    task tasks[MAX_TASKS];
    int n = between(c, 1, MAX_TASKS);
    memset(readings, 0, sizeof(reading) * MAX_TASKS);
    for (int i = 0; i < n; i++) {
        tasks[i] = task_of(r, c);
        if (tasks[i].limit > MAX_TOKENS) tasks[i].limit = MAX_TOKENS;
        readings[i].length = between(c, 1, tasks[i].limit);
        for (int j = 0; j < readings[i].length; j++) readings[i].tokens[j] = between(c, 0, r->m.vocab_size - 1);
    }
    int status = read_targets(r, n, tasks, readings), finite = 1;
    for (int i = 0; status != NO_MEMORY && i < n; i++) {
        reading alone = readings[i];
        int one = read_targets(r, 1, tasks + i, &alone);
        finite &= one != NOT_FINITE;
        if (one == NO_MEMORY || (one == 1 && check_steps(r, tasks + i, &alone) != 1)) status = NO_MEMORY;
        if (status == 1 && one == 1) {
            CHECK(same_floats(alone.length, alone.log_ps, readings[i].log_ps));
            CHECK(same_floats(attention_floats(tasks + i, alone.length), alone.attention, readings[i].attention));
        }
        free(alone.attention);
    }
    if (status == NOT_FINITE) CHECK(!finite);
    for (int i = 0; i < n; i++) free(readings[i].attention);
    return status != NO_MEMORY;
}
