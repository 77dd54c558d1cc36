/* Runs the C engine on random models, as engine/native_model.py may call it, and checks its laws: a result is bitwise
   independent of the other sentences in the batch, of the steps per call and of the tables' lengths; wrong calls are
   refused; a failed allocation ends a call with its error code; products keep theirs (product_laws.h).

   random_models models FIRST COUNT     the seeds FIRST, FIRST + 1, ...
   random_models failing FIRST COUNT    every allocation of five runs fails once, for each seed
   random_models threads FIRST COUNT    four threads share one model
   random_models print FIRST COUNT      the results of float32 models, to compare processors
   random_models replay < FILE          inputs of the fuzzer, one per line, in hexadecimal

   SHOW_SEEDS=1 prints each seed before it runs. With -DFUZZ it is a target of libFuzzer instead. */

#include "product_laws.h"

#include <pthread.h>

enum { MAX_TOKENS = 60, MAX_TASKS = 8, MAX_HEADS = 3, MAX_HYPOTHESES = 70, MAX_STEPS = 160, NO_MEMORY = 0 };

/* What engine/native_model.py keeps of a batch. */
typedef struct {
    const random_model *of;
    model m;
    float *tables[N_TABLES];
    int length, width;
    batch *b;
} session;

static int session_open(session *s, const random_model *of, int width) {
    *s = (session){.of = of, .width = width, .b = batch_new()};
    return s->b != NULL;
}

static void session_close(session *s) {
    if (s->b) batch_free(s->b);
    for (int i = 0; i < N_TABLES; i++) free(s->tables[i]);
}

/* A sentence and the rules of its search. */
typedef struct {
    int32_t n_source, limit, shortest, n_prefix, source[MAX_TOKENS], prefix[MAX_TOKENS];
    int32_t n_heads, heads[2 * MAX_HEADS]; /* whose attention is recorded */
} task;

static size_t attention_floats(const task *t, int length) { return (size_t)length * t->n_heads * t->n_source; }

static task task_of(const random_model *r, choices *c) {
    task t = {.n_source = between(c, 1, MAX_TOKENS), .limit = one_in(c, 32) ? between(c, 500, 9000) : between(c, 1, MAX_TOKENS)};
    t.shortest = one_in(c, 3) ? between(c, 0, t.limit < MAX_TOKENS ? t.limit - 1 : MAX_TOKENS) : 0;
    for (int i = 0; i < t.n_source; i++) t.source[i] = between(c, 0, r->source_vocab - 1);
    if (one_in(c, 4)) t.n_prefix = between(c, 0, t.limit <= 12 ? t.limit - 1 : 12);
    for (int i = 0; i < t.n_prefix; i++) {
        t.prefix[i] = between(c, 0, r->m.vocab_size - 1);
        if (t.prefix[i] == r->eos) t.prefix[i] = (r->eos + 1) % r->m.vocab_size;
    }
    if (one_in(c, 3)) t.n_heads = between(c, 1, MAX_HEADS);
    for (int i = 0; i < t.n_heads; i++) {
        t.heads[2 * i] = between(c, 0, r->m.decoder.n_layers - 1);
        t.heads[2 * i + 1] = between(c, 0, r->m.heads - 1);
    }
    return t;
}

/* A copy of exactly this size. */
static void *copied(const void *from, size_t size) { return memcpy(exact(size), from, size); }

/* Whether sentences of this model have shortlists: half of the models. */
static int has_lists(const random_model *r) {
    return mixed(31 * (uint64_t)r->m.d_model + 7 * (uint64_t)r->m.vocab_size + (uint64_t)r->source_vocab) & 1;
}

/* Per token of the vocabulary, whether a sentence may use it; the same in every batch. */
static uint8_t *listed_tokens(const random_model *r, const task *t) {
    uint8_t *listed = exact(r->m.vocab_size);
    uint64_t state = mixed((uint64_t)t->source[0] + 100 * (uint64_t)t->n_source), few = state % 5 + 1;
    for (int i = 0; i < r->m.vocab_size; i++) {
        state = mixed(state);
        listed[i] = !has_lists(r) || i == r->eos || state % few == 0;
    }
    for (int i = 0; i < t->n_prefix; i++) listed[t->prefix[i]] = 1;
    return listed;
}

/* Lists that are refused: too many, empty, not sorted, tokens that do not exist. */
static void wrong_lists(const model *m, batch *b) {
    const int32_t sizes[] = {1, 0, 2, 1, 1}, lists[][2] = {{0}, {0}, {1, 1}, {-1}, {m->vocab_size}};
    for (int i = 0; i < 5; i++) {
        int32_t *size = copied(sizes + i, sizeof *size), *list = copied(lists[i], sizeof *list * sizes[i]);
        CHECK(batch_restrict(m, b, i ? 1 : b->count + 1, size, list) == WRONG_LIST);
        free(size), free(list);
    }
}

/* Restricts the newest n sentences to their lists; 0 if memory is exhausted. */
static int restrict_newest(const random_model *r, const model *m, batch *b, int n, const task *tasks) {
    int32_t *sizes = exact(sizeof(int32_t) * n), *lists = exact(sizeof(int32_t) * n * m->vocab_size), total = 0;
    for (int i = 0; i < n; i++) {
        uint8_t *listed = listed_tokens(r, tasks + i);
        sizes[i] = -total;
        for (int j = 0; j < m->vocab_size; j++)
            if (listed[j]) lists[total++] = j;
        sizes[i] += total;
        free(listed);
    }
    int32_t *own = copied(lists, sizeof(int32_t) * total);
    wrong_lists(m, b);
    int restricted = batch_restrict(m, b, n, sizes, own);
    free(sizes), free(lists), free(own);
    return restricted;
}

/* Sentences join that may use the whole vocabulary. */
static int session_join_unrestricted(session *s, int n, const task *tasks) {
    int32_t lengths[MAX_TASKS], limits[MAX_TASKS], ids[MAX_TASKS * MAX_TOKENS];
    int rows = 0, most = s->length;
    for (int i = 0; i < n; rows += tasks[i++].n_source) {
        lengths[i] = tasks[i].n_source, limits[i] = tasks[i].limit;
        most = lengths[i] > most ? lengths[i] : most, most = limits[i] > most ? limits[i] : most;
        memcpy(ids + rows, tasks[i].source, sizeof(int32_t) * lengths[i]);
    }
    if (most > s->length) {
        for (int i = 0; i < N_TABLES; i++) free(s->tables[i]);
        s->m = with_tables(s->of, s->length = most, s->tables);
    }
    int32_t *own[] = {copied(lengths, sizeof(int32_t) * n), copied(limits, sizeof(int32_t) * n), copied(ids, sizeof(int32_t) * rows)};
    int joined = batch_join(&s->m, s->b, n, own[0], own[1], own[2], s->width);
    for (int i = 0; i < 3; i++) free(own[i]);
    return joined;
}

static int session_join(session *s, int n, const task *tasks) {
    int joined = session_join_unrestricted(s, n, tasks);
    return joined == 1 && has_lists(s->of) ? restrict_newest(s->of, &s->m, s->b, n, tasks) : joined;
}

/* The newest n sentences record the attention of the heads that their tasks ask for. */
static int session_record(session *s, int n, const task *tasks) {
    int32_t counts[MAX_TASKS], heads[MAX_TASKS * 2 * MAX_HEADS], total = 0;
    for (int i = 0; i < n; total += 2 * tasks[i++].n_heads) {
        counts[i] = tasks[i].n_heads;
        memcpy(heads + total, tasks[i].heads, sizeof(int32_t) * 2 * tasks[i].n_heads);
    }
    int32_t *own[] = {copied(counts, sizeof(int32_t) * n), copied(heads, sizeof(int32_t) * total)};
    int status = batch_record(s->b, n, own[0], own[1]);
    free(own[0]), free(own[1]);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- searches */

typedef struct {
    int found, count; /* whether the search was finished; hypotheses */
    int32_t *lengths, *tokens;
    double *scores;
    float *log_ps;
    ptrdiff_t stride;
    float *attention[MAX_HYPOTHESES];
} result;

static void result_free(result *one) {
    for (int k = 0; k < one->count; k++) free(one->attention[k]);
    free(one->lengths), free(one->tokens), free(one->scores), free(one->log_ps);
}

static beam beam_of(const random_model *r, choices *c, int width) {
    static const double penalties[] = {1, 0, 0.6, 10};
    int vocab_size = r->m.vocab_size, kind = between(c, 0, 5);
    beam settings = {.eos = r->eos, .width = width, .n_best = between(c, 1, width), .keep_greedy = between(c, 0, 1)};
    settings.looked_at = width == 1 ? 1 : width + 1;
    if (settings.looked_at > vocab_size) settings.looked_at = vocab_size;
    settings.length_penalty = penalties[between(c, 0, 3)];
    if (kind < 3) return settings;
    uint8_t *never = exact(vocab_size); /* some tokens, all but the end, all */
    for (int i = 0; i < vocab_size; i++) never[i] = kind == 3 ? one_in(c, 3) : kind == 4 ? i != r->eos : 1;
    settings.never = never;
    return settings;
}

static void check_result(const random_model *r, const beam *settings, const task *t, const result *one) {
    uint8_t *listed = listed_tokens(r, t);
    CHECK(one->count <= settings->n_best);
    for (int k = 0; k < one->count; k++) {
        const int32_t *tokens = one->tokens + k * one->stride;
        int length = one->lengths[k];
        double total = 0;
        CHECK(length >= 1 && length <= t->limit && tokens[length - 1] == settings->eos);
        for (int j = 0; j < length; j++) {
            total += one->log_ps[k * one->stride + j];
            CHECK(one->log_ps[k * one->stride + j] <= 0);
            CHECK(tokens[j] >= 0 && tokens[j] < r->m.vocab_size && (j == length - 1 || tokens[j] != settings->eos));
            CHECK(j >= t->n_prefix || tokens[j] == t->prefix[j]);
            CHECK(listed[tokens[j]]);
            CHECK(j < t->n_prefix || !settings->never || !settings->never[tokens[j]] || tokens[j] == settings->eos);
        }
        CHECK(one->scores[k] == penalised(total, length, settings->length_penalty));
        CHECK(!k || one->scores[k] <= one->scores[k - 1]);
    }
    free(listed);
}

/* The result of the i-th finished sentence, read as engine/native_model.py does. */
static int read_result(const session *s, const beam *settings, int i, const task *tasks, result *results) {
    int32_t number, *lengths = exact(sizeof(int32_t) * settings->n_best);
    double *scores = exact(sizeof(double) * settings->n_best);
    int count = batch_found(s->b, i, 0, &number, lengths, scores, NULL, NULL), longest = 0;
    for (int k = 0; k < count; k++) longest = lengths[k] > longest ? lengths[k] : longest;
    result one = {1, count, lengths, exact(sizeof(int32_t) * settings->n_best * longest), scores,
                  exact(sizeof(float) * settings->n_best * longest), longest, {0}};
    CHECK(count == batch_found(s->b, i, longest, &number, lengths, scores, one.tokens, one.log_ps));
    CHECK(!results[number].found);
    for (int k = 0; k < count; k++) {
        one.attention[k] = exact(sizeof(float) * attention_floats(tasks + number, lengths[k]));
        batch_attention(s->b, i, k, one.attention[k]);
    }
    results[number] = one;
    return number;
}

static int begin_searches(session *s, const beam *settings, int first, int n, const task *tasks) {
    int32_t numbers[MAX_TASKS], shortest[MAX_TASKS], n_prefix[MAX_TASKS], prefixes[MAX_TASKS * MAX_TOKENS], total = 0;
    if (!session_join(s, n, tasks + first)) return NO_MEMORY;
    for (int i = 0; i < n; total += tasks[first + i++].n_prefix) {
        const task *t = tasks + first + i;
        numbers[i] = first + i, shortest[i] = t->shortest, n_prefix[i] = t->n_prefix;
        memcpy(prefixes + total, t->prefix, sizeof(int32_t) * t->n_prefix);
    }
    int32_t *own[] = {copied(numbers, sizeof(int32_t) * n), copied(shortest, sizeof(int32_t) * n),
                      copied(n_prefix, sizeof(int32_t) * n), copied(prefixes, sizeof(int32_t) * total)};
    int begun = batch_search(s->b, settings, n, own[0], own[1], own[2], own[3]);
    for (int i = 0; i < 4; i++) free(own[i]);
    return begun ? session_record(s, n, tasks + first) : begun;
}

/* Searches for n tasks, which join and leave one batch at random, with random numbers of steps per call. Returns 1, or
   NO_MEMORY or NOT_FINITE. */
static int run_searches(const random_model *r, const beam *settings, int n, const task *tasks, choices *c, result *results) {
    session s;
    int joined = 0, running = 0, status = session_open(&s, r, settings->width);
    for (int steps = 0; status == 1 && (joined < n || running) && steps < MAX_STEPS;) {
        if (joined < n && (!running || between(c, 0, 2))) {
            int more = between(c, 1, n - joined);
            status = begin_searches(&s, settings, joined, more, tasks);
            joined += more, running += more;
            continue;
        }
        int most = between(c, 1, 32), finished = batch_advance(&s.m, s.b, settings, most);
        if (finished < 0) status = finished == -1 ? NO_MEMORY : finished;
        for (int i = 0; i < finished; i++) {
            int number = read_result(&s, settings, i, tasks, results);
            CHECK(number >= 0 && number < joined);
            check_result(r, settings, tasks + number, results + number);
        }
        running -= finished > 0 ? finished : 0, steps += most;
    }
    session_close(&s);
    CHECK(status == 1 || status == NO_MEMORY || status == NOT_FINITE);
    return status;
}

static int same_floats(ptrdiff_t count, const float *a, const float *b) {
    for (ptrdiff_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof(float)) && !(isnan(a[i]) && isnan(b[i]))) return 0;
    return 1;
}

static int same_result(const task *t, const result *a, const result *b) {
    if (a->count != b->count || a->stride != b->stride) return 0;
    for (int k = 0; k < a->count; k++) {
        ptrdiff_t at = k * a->stride;
        if (a->lengths[k] != b->lengths[k] || a->scores[k] != b->scores[k]) return 0;
        if (memcmp(a->tokens + at, b->tokens + at, sizeof(int32_t) * a->lengths[k])) return 0;
        if (!same_floats(a->lengths[k], a->log_ps + at, b->log_ps + at)) return 0;
        if (!same_floats(attention_floats(t, a->lengths[k]), a->attention[k], b->attention[k])) return 0;
    }
    return 1;
}

static int chosen_width(choices *c) { return one_in(c, 24) ? between(c, 10, MAX_HYPOTHESES) : between(c, 1, 9); }

/* The results of a batch are those of each sentence alone. */
static void search_laws(const random_model *r, choices *c, int print) {
    task tasks[MAX_TASKS];
    result together[MAX_TASKS] = {0}, alone[MAX_TASKS] = {0};
    beam settings = beam_of(r, c, chosen_width(c));
    int n = between(c, 1, settings.width > 9 ? 2 : MAX_TASKS), finite = 1;
    for (int i = 0; i < n; i++) tasks[i] = task_of(r, c);
    int status = run_searches(r, &settings, n, tasks, c, together);
    for (int i = 0; i < n; i++) {
        choices zeros = {(uint8_t *)&zeros, (uint8_t *)&zeros, 0};
        result one[1] = {{0}};
        if (run_searches(r, &settings, 1, tasks + i, c->end ? &zeros : c, one) == NOT_FINITE) finite = 0;
        alone[i] = one[0];
        if (alone[i].found && together[i].found) CHECK(same_result(tasks + i, alone + i, together + i));
        for (int k = 0; print && k < alone[i].count; k++) {
            printf("%.9g", alone[i].scores[k]);
            for (int j = 0; j < alone[i].lengths[k]; j++) printf(" %d", alone[i].tokens[k * alone[i].stride + j]);
            printf("\n");
        }
    }
    if (status == NOT_FINITE) CHECK(!finite);
    for (int i = 0; i < n; i++) result_free(alone + i), result_free(together + i);
    free((void *)settings.never);
}

#include "random_steps.h"

#include "given_targets.h"

/* ----------------------------------------------------------------------------------------------------------- modes */

static void run_case(choices c) {
    random_model *r = random_model_new(&c, -1, 1);
    if (between(&c, 0, 1)) run_steps(r, &c);
    search_laws(r, &c, 0);
    product_laws(&c);
    if (one_in(&c, 2)) {
        reading readings[MAX_TASKS];
        reading_laws(r, &c, readings);
    }
    random_model_free(r);
}

static void print_case(choices c) {
    random_model *r = random_model_new(&c, -1, 0);
    if (r->precision == FLOAT32) search_laws(r, &c, 1);
    random_model_free(r);
}

/* A search of one of the kinds whose allocations fail. */
typedef struct {
    const random_model *r;
    beam settings;
    int n;
    enum { SEARCH, STEPS, READING } kind;
    task tasks[MAX_TASKS];
    choices c;
} scenario;

static int run_scenario(const scenario *one, result *results) {
    choices c = one->c;
    memset(results, 0, sizeof(result) * MAX_TASKS);
    if (one->kind == READING) {
        reading readings[MAX_TASKS];
        return reading_laws(one->r, &c, readings);
    }
    return one->kind == STEPS ? run_steps(one->r, &c) : run_searches(one->r, &one->settings, one->n, one->tasks, &c, results);
}

/* The n-th allocation fails, alone or with all after it, for every n: the call says so, everything is freed, and the next
   search has the same results as before. Returns the number of allocations. */
static long fail_each_allocation(const scenario *one) {
    result reference[MAX_TASKS], results[MAX_TASKS];
    fail_allocation(0, 0);
    CHECK(run_scenario(one, reference) == 1);
    long count = allocations_made();
    for (long n = 1; n <= 2 * count; n++) {
        fail_allocation((n + 1) / 2, n % 2);
        CHECK(run_scenario(one, results) == NO_MEMORY);
        fail_allocation(0, 0);
        for (int i = 0; i < MAX_TASKS; i++) {
            if (results[i].found) CHECK(same_result(one->tasks + i, results + i, reference + i));
            result_free(results + i);
        }
    }
    CHECK(run_scenario(one, results) == 1);
    for (int i = 0; i < MAX_TASKS; i++) {
        CHECK(results[i].found == reference[i].found && (!results[i].found || same_result(one->tasks + i, results + i, reference + i)));
        result_free(results + i), result_free(reference + i);
    }
    return count;
}

static long failing_case(choices c) {
    static const int widths[] = {1, 5, 4, 3, 1};
    long count = 0;
    for (int kind = 0; kind < 5; kind++) { /* greedy, beam, stepwise, recurrent, given targets */
        random_model *r = random_model_new(&c, kind == 3, 0);
        scenario one = {.r = r, .settings = beam_of(r, &c, widths[kind]), .n = MAX_TASKS, .c = c};
        one.kind = kind == 2 ? STEPS : kind == 4 ? READING : SEARCH;
        for (int i = 0; i < one.n; i++) one.tasks[i] = task_of(r, &c);
        count += fail_each_allocation(&one);
        free((void *)one.settings.never), random_model_free(r);
    }
    void *pages = memory_new(1);
    fail_allocation(1, 0);
    CHECK(pages && !memory_new(1));
    fail_allocation(0, 0);
    memory_free(pages);
    return count + 1;
}

typedef struct {
    const random_model *r;
    choices c;
} thread_case;

static void *run_thread(void *argument) {
    thread_case *one = argument;
    run_steps(one->r, &one->c);
    search_laws(one->r, &one->c, 0);
    return NULL;
}

static void threads_case(choices c) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    thread_case cases[THREADS];
    random_model *r = random_model_new(&c, -1, 0);
    for (int i = 0; i < THREADS; i++) cases[i] = (thread_case){r, {.seed = mixed(c.seed + (uint64_t)i / 2)}}; /* two and two alike */
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(threads + i, NULL, run_thread, cases + i));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    random_model_free(r);
}

static int replay(void) {
    static char line[20000];
    int count = 0;
    for (; fgets(line, sizeof line, stdin); count++) {
        size_t size = strspn(line, "0123456789abcdef") / 2;
        uint8_t *bytes = exact(size);
        for (size_t i = 0; i < size; i++) {
            char digits[3] = {line[2 * i], line[2 * i + 1], 0};
            bytes[i] = (uint8_t)strtol(digits, NULL, 16);
        }
        run_case((choices){bytes, bytes + size, 0});
        free(bytes);
    }
    return count;
}

#ifdef FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t nothing[1];
    run_case((choices){size ? data : nothing, size ? data + size : nothing, 0});
    return 0;
}
#else
int main(int n, char **words) {
    if (n == 2 && !strcmp(words[1], "replay")) return printf("%d inputs\n", replay()) < 0;
    if (n != 4) return fprintf(stderr, "random_models models|failing|threads|print FIRST COUNT, or replay\n"), 2;
    uint64_t first = strtoull(words[2], NULL, 10), count = strtoull(words[3], NULL, 10);
    long allocations = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        choices c = {.seed = mixed(seed) << 16};
        if (getenv("SHOW_SEEDS")) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        if (!strcmp(words[1], "models")) run_case(c);
        if (!strcmp(words[1], "failing")) allocations += failing_case(c);
        if (!strcmp(words[1], "threads")) threads_case(c);
        if (!strcmp(words[1], "print")) printf("seed %llu\n", (unsigned long long)seed), print_case(c);
    }
    if (allocations) printf("%ld allocations\n", allocations);
    return printf("%llu models\n", (unsigned long long)count) < 0;
}
#endif
