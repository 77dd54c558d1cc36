/* Random steps, and rows that are kept, for random_models.c, which includes this file. */

#pragma once

typedef struct {
    task t;
    int rows, length;
    int32_t history[MAX_HYPOTHESES][MAX_TOKENS]; /* tokens of each row */
} running_sentence;

typedef struct {
    session s;
    running_sentence all[MAX_TASKS];
    int n, rows;
} stepping;

/* The outputs of a step, each of exactly its size. */
typedef struct {
    float *logits, *sums, *log_ps;
    int32_t *likeliest;
} outputs;

static outputs outputs_of(int rows, int columns, int count) {
    return (outputs){exact(sizeof(float) * rows * columns), exact(sizeof(float) * rows), exact(sizeof(float) * rows * count),
                     exact(sizeof(int32_t) * rows * count)};
}

static void outputs_free(outputs *o) { free(o->logits), free(o->sums), free(o->log_ps), free(o->likeliest); }

static void check_row(const model *m, const uint8_t *listed, const uint8_t *never, int count, const float *logits, float sum,
                      const float *log_ps, const int32_t *likeliest) {
    int finite = 1;
    for (int i = 0; i < m->vocab_size; i++)
        if (listed[i]) finite &= isfinite(logits[i]) != 0;
        else CHECK(logits[i] == -INFINITY);
    CHECK(finite == !isnan(sum));
    for (int k = 0; k < count && finite; k++) {
        CHECK(!k || log_ps[k] <= log_ps[k - 1]);
        CHECK(likeliest[k] >= 0 && likeliest[k] < m->vocab_size);
        if (log_ps[k] == -INFINITY) continue;
        CHECK(log_ps[k] == log_p_of(logits[likeliest[k]], sum) && !(never && never[likeliest[k]]) && listed[likeliest[k]]);
    }
}

/* The logits of a row are those of its history alone, step by step. */
static int check_alone(const random_model *r, const running_sentence *one, int row, const float *logits) {
    session s;
    int columns = r->m.output.outputs, status = session_open(&s, r, 1) && session_join(&s, 1, &one->t);
    outputs o = outputs_of(1, columns, 0);
    for (int j = 0; status && j < one->length; j++)
        status = batch_step(&s.m, s.b, 1, one->history[row] + j, NULL, 0, o.logits, o.sums, o.log_ps, o.likeliest);
    if (status) CHECK(status == 1 && same_floats(r->m.vocab_size, logits, o.logits));
    outputs_free(&o), session_close(&s);
    return status;
}

/* One step with random tokens, or what refuses it. */
static int random_step(stepping *all, choices *c) {
    const random_model *r = all->s.of;
    int vocab_size = r->m.vocab_size, columns = r->m.output.outputs, count = between(c, 0, vocab_size < 7 ? vocab_size : 7);
    int too_many = one_in(c, 16), too_long = 0, row = 0, expected = 1;
    int32_t *tokens = exact(sizeof(int32_t) * (all->rows + 1));
    uint8_t *never = between(c, 0, 1) ? exact(vocab_size) : NULL;
    for (int i = 0; never && i < vocab_size; i++) never[i] = (uint8_t)one_in(c, 4);
    for (int i = 0; i < all->n; i++) too_long |= all->all[i].length >= all->all[i].t.limit;
    for (int i = 0; i <= all->rows; i++) tokens[i] = between(c, 0, vocab_size - 1);
    if (too_long) expected = TOO_LONG;
    if (too_many || !all->rows) expected = WRONG_ROWS;
    outputs o = outputs_of(all->rows, columns, count);
    int status = batch_step(&all->s.m, all->s.b, all->rows + too_many, tokens, never, count, o.logits, o.sums, o.log_ps, o.likeliest);
    CHECK(status == expected || status == NO_MEMORY);
    for (int i = 0; status == 1 && i < all->n; i++) {
        running_sentence *one = all->all + i;
        uint8_t *listed = listed_tokens(r, &one->t);
        for (int k = 0; k < one->rows; k++, row++) {
            one->history[k][one->length] = tokens[row];
            check_row(&r->m, listed, never, count, o.logits + (ptrdiff_t)row * columns, o.sums[row], o.log_ps + row * count,
                      o.likeliest + row * count);
        }
        free(listed), one->length++;
    }
    if (status == 1 && one_in(c, 4)) {
        int i = between(c, 0, all->n - 1), k = between(c, 0, all->all[i].rows - 1), before = k;
        for (int j = 0; j < i; j++) before += all->all[j].rows;
        status = check_alone(r, all->all + i, k, o.logits + (ptrdiff_t)before * columns);
    }
    outputs_free(&o), free(tokens), free(never);
    return status != NO_MEMORY;
}

/* Keeps random rows of each sentence, some several times; first, perhaps, rows that do not exist. */
static void random_keep(stepping *all, choices *c) {
    int32_t rows[MAX_TASKS * MAX_HYPOTHESES + 1];
    int count = 0, n = 0;
    for (int i = 0, before = 0; i < all->n; i++) {
        running_sentence *one = all->all + i, was = *one;
        one->rows = between(c, 0, all->s.width);
        for (int k = 0; k < one->rows; k++) {
            int from = between(c, 0, was.rows - 1);
            rows[count++] = before + from;
            memcpy(one->history[k], was.history[from], sizeof one->history[k]);
        }
        before += was.rows;
        if (one->rows) all->all[n++] = *one;
    }
    if (one_in(c, 4)) {
        int32_t before = rows[count];
        rows[count] = between(c, 0, 1) ? all->rows : -1;
        CHECK(batch_keep(all->s.b, count + 1, rows) == WRONG_ROWS);
        rows[count] = before;
    }
    int32_t *own = copied(rows, sizeof(int32_t) * count);
    CHECK(batch_keep(all->s.b, count, own) == 1);
    free(own);
    all->n = n, all->rows = count;
}

static int random_join(stepping *all, choices *c) {
    int more = between(c, 1, MAX_TASKS - all->n);
    task tasks[MAX_TASKS];
    for (int i = 0; i < more; i++) {
        tasks[i] = task_of(all->s.of, c);
        if (tasks[i].limit > MAX_TOKENS) tasks[i].limit = MAX_TOKENS;
        running_sentence *one = all->all + all->n++;
        *one = (running_sentence){.t = tasks[i], .rows = 1};
    }
    all->rows += more;
    return session_join(&all->s, more, tasks);
}

/* Random calls in a random order; 0 if memory is exhausted. */
static int run_steps(const random_model *r, choices *c) {
    stepping *all = exact(sizeof *all);
    all->n = all->rows = 0;
    int going = session_open(&all->s, r, one_in(c, 12) ? between(c, 1, MAX_HYPOTHESES) : between(c, 1, 6));
    if (going) going = random_join(all, c);
    for (int calls = between(c, 1, 60); going && calls; calls--) {
        int kind = between(c, 0, 9);
        if (kind == 8 && all->n < MAX_TASKS) going = random_join(all, c);
        else if (kind == 9 || (kind > 5 && all->s.width > 1)) random_keep(all, c);
        else going = random_step(all, c);
    }
    session_close(&all->s), free(all);
    return going;
}
