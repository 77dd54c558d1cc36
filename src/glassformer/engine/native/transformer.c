/* A whole Transformer: encodes sources, and extends targets by one token per call.

   Sentences keep their own lengths: nothing is padded, and sentences may join or leave a running batch. */

#include "sentence.h"

/* A buffer that is reused by later calls and grows on demand. */
typedef struct {
    size_t size;
    char *at;
} memory;

/* Divides the buffer into consecutive parts of these sizes; 0 if memory is exhausted. */
static int parts_of(memory *all, int count, const size_t *sizes, void **parts) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += (sizes[i] + 127) / 64 * 64;
    if (total > all->size) {
        free(all->at);
        all->at = aligned_alloc(64, total);
        all->size = all->at ? total : 0;
        if (!all->at) return 0;
    }
    char *at = all->at;
    for (int i = 0; i < count; i++) parts[i] = at, at += (sizes[i] + 127) / 64 * 64;
    return 1;
}

/* Sentences that are stepped together. */
typedef struct {
    sentence **sentences;
    int32_t count, rows, kept; /* after the `count` running ones, `kept` finished ones whose memory is reused */
    memory work, search_work;  /* buffers of a step and of a search */
} batch;

/* Rows that pass through the layers together, approximately: as many as fit into the cache. */
#define ROWS_PER_PASS 56

/* The buffers of a call, consecutive in `work`. */
typedef struct {
    float *x, *y, *h, *wide, *scores;
    const float **blocks, **single; /* keys and values of the queries */
    float *packed;                  /* blocks of one sentence, while encoding */
    float *scratch;
    int width, wide_width, scores_stride;
} buffers;

/* `widest`: columns of the widest result other than a layer's; `longest`: keys at most; `packed`: keys to pack. */
static int buffers_for(const model *m, batch *b, int rows, int widest, int longest, int packed, buffers *all) {
    int inner = m->heads * m->d_head;
    all->width = whole_panels(m->d_model > inner ? m->d_model : inner);
    int wide = whole_panels(3 * inner), cells = m->recurrent ? 2 * whole_panels(m->d_model) : 0;
    int hidden = (m->gated ? 2 : 1) * whole_panels(m->d_ff);
    all->wide_width = wide > hidden ? wide : hidden;
    if (cells > all->wide_width) all->wide_width = cells;
    if (widest > all->wide_width) all->wide_width = widest;
    int deepest = all->wide_width > all->width ? all->wide_width : all->width;
    int blocks = longest / WIDTH;
    all->scores_stride = (blocks + 2) * WIDTH;
    size_t sizes[] = {
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->wide_width,
        sizeof(float) * QUERIES * m->heads * all->scores_stride,
        sizeof(float *) * QUERIES * blocks,
        sizeof(float *) * QUERIES * WIDTH,
        sizeof(float) * (packed / WIDTH) * block_size(inner),
        sizeof(float) * rows * (deepest + 2),
    };
    void *at[9];
    if (!parts_of(&b->work, 9, sizes, at)) return 0;
    all->x = at[0], all->y = at[1], all->h = at[2], all->wide = at[3];
    all->scores = at[4], all->blocks = at[5], all->single = at[6], all->packed = at[7], all->scratch = at[8];
    return 1;
}

static void embed(const model *m, const stack *s, int token, int position, float *x) {
    const float *row = s->table + (ptrdiff_t)token * m->d_model;
    const float *place = s->positions ? s->positions + (ptrdiff_t)position * m->d_model : NULL;
    for (int i = 0; i < m->d_model; i++) x[i] = row[i] * m->embedding_scale + (place ? place[i] : 0);
    for (int i = m->d_model; i < whole_panels(m->d_model); i++) x[i] = 0;
    if (s->embedding_norm.weight) normalise(&s->embedding_norm, m->eps, m->d_model, x, x);
}

/* The input of a sub-layer: all rows, normalised in a pre-norm model. */
static const float *before(const model *m, const norm *by, int rows, const buffers *w) {
    if (!m->norm_first) return w->x;
    for (int i = 0; i < rows; i++)
        normalise(by, m->eps, m->d_model, w->x + (ptrdiff_t)i * w->width, w->h + (ptrdiff_t)i * w->width);
    return w->h;
}

/* The output of a sub-layer: x + y, normalised in a post-norm model. */
static void after(const model *m, const norm *by, int rows, const buffers *w) {
    for (int i = 0; i < rows; i++) {
        float *x = w->x + (ptrdiff_t)i * w->width;
        add(m->d_model, x, w->y + (ptrdiff_t)i * w->width);
        if (!m->norm_first) normalise(by, m->eps, m->d_model, x, x);
    }
}

static void finish(const model *m, const stack *s, int rows, const buffers *w) {
    if (s->final_norm.weight)
        for (int i = 0; i < rows; i++)
            normalise(&s->final_norm, m->eps, m->d_model, w->x + (ptrdiff_t)i * w->width, w->x + (ptrdiff_t)i * w->width);
}

static void rotate_heads(const model *m, int position, float *x) {
    if (!m->cos) return;
    ptrdiff_t row = (ptrdiff_t)position * m->d_head;
    for (int h = 0; h < m->heads; h++) rotate(m->d_head, x + h * m->d_head, m->cos + row, m->sin + row);
}

/* The keys at w->blocks and w->single, shared by all queries unless changed. */
static keys shared_keys(const model *m, int n_blocks, int n_single, const buffers *w) {
    return (keys){.heads = m->heads, .size = m->d_head, .scale = m->scale, .n_blocks = n_blocks, .n_single = n_single,
                  .blocks = w->blocks, .single = w->single, .scores = w->scores, .stride = w->scores_stride};
}

/* Sets the bias of a query at `position`, and of those after it, for keys from 0 on. */
static void bias_of(const model *m, const stack *s, int layer, int position, int step, keys *k) {
    k->bias = s->bias + layer * s->bias_stride + m->length - 1 - position;
    k->bias_step = step, k->bias_stride = 2 * m->length - 1;
}

static void feed_forward(const model *m, const layer *l, int rows, const buffers *w) {
    const float *h = before(m, &l->feed_forward_norm, rows, w);
    multiply(&l->up, rows, h, w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, hidden = whole_panels(m->d_ff); i < rows; i++) {
        float *row = w->wide + (ptrdiff_t)i * w->wide_width;
        activate(m->activation, hidden, row, m->gated ? row + hidden : NULL);
    }
    multiply(&l->down, rows, w->wide, w->wide_width, w->y, w->width, w->scratch);
    after(m, &l->feed_forward_norm, rows, w);
}

/* Encodes n sources, concatenated in `ids`, with these lengths; the encoder output is left in w->x. */
static void encode(const model *m, int n, const int32_t *lengths, const int32_t *ids, int rows, const buffers *w) {
    const stack *s = &m->encoder;
    int inner = m->heads * m->d_head;
    for (int i = 0, row = 0; i < n; row += lengths[i++])
        for (int j = 0; j < lengths[i]; j++) embed(m, s, ids[row + j], j, w->x + (ptrdiff_t)(row + j) * w->width);
    for (int number = 0; number < s->n_layers; number++) {
        const layer *l = s->layers + number;
        const float *h = before(m, &l->self_norm, rows, w);
        multiply(&l->qkv, rows, h, w->width, w->wide, w->wide_width, w->scratch);
        for (int i = 0, row = 0; i < n; row += lengths[i++]) {
            int n_blocks = lengths[i] / WIDTH;
            for (int j = 0; j < lengths[i]; j++) {
                float *qkv = w->wide + (ptrdiff_t)(row + j) * w->wide_width;
                rotate_heads(m, j, qkv);
                rotate_heads(m, j, qkv + inner);
                w->single[j % WIDTH] = qkv + inner;
                if (j % WIDTH < WIDTH - 1) continue;
                float *block = w->packed + j / WIDTH * block_size(inner);
                pack(m->heads, m->d_head, w->single, block);
                w->blocks[j / WIDTH] = block;
            }
            keys k = shared_keys(m, n_blocks, lengths[i] % WIDTH, w);
            for (int j = 0; j < lengths[i]; j += QUERIES) {
                if (s->bias) bias_of(m, s, number, j, -1, &k);
                attend(&k, lengths[i] - j < QUERIES ? lengths[i] - j : QUERIES, w->wide + (ptrdiff_t)(row + j) * w->wide_width,
                       w->wide_width, w->h + (ptrdiff_t)(row + j) * w->width, w->width);
            }
        }
        multiply(&l->out, rows, w->h, w->width, w->y, w->width, w->scratch);
        after(m, &l->self_norm, rows, w);
        feed_forward(m, l, rows, w);
    }
    finish(m, s, rows, w);
}

/* -------------------------------------------------------------------------------------------- called from Python */

int panel_columns(void) { return PANEL; }

/* Sizes of the structs and values of the enums that engine/native_structs.py repeats, in its order; -1 after the last. */
int layout(int number) {
    const int all[] = {sizeof(norm), sizeof(product), sizeof(layer), sizeof(stack), sizeof(model), sizeof(beam),
                       RELU, GELU, GELU_TANH, SILU, FLOAT32, FLOAT16, INT8};
    return number < (int)(sizeof all / sizeof *all) ? all[number] : -1;
}

/* Memory for packed weights. */
void *memory_new(size_t size) { return large_pages(size); }

void memory_free(void *address) { free(address); }

batch *batch_new(void) { return calloc(1, sizeof(batch)); }

void batch_free(batch *b) {
    for (int i = 0; i < b->count + b->kept; i++) sentence_free(b->sentences[i]);
    free(b->sentences), free(b->work.at), free(b->search_work.at), free(b);
}

static int join_some(const model *m, batch *b, int n, const int32_t *lengths, const int32_t *limits, const int32_t *ids,
                     int width) {
    int rows = 0, longest = 0;
    for (int i = 0; i < n; i++) rows += lengths[i], longest = lengths[i] > longest ? lengths[i] : longest;
    buffers w;
    sentence **more = realloc(b->sentences, sizeof(sentence *) * (b->count + b->kept + n));
    if (!more) return 0;
    b->sentences = more;
    if (!buffers_for(m, b, rows, m->cross_kv.outputs, longest, longest, &w)) return 0;
    encode(m, n, lengths, ids, rows, &w);
    multiply(&m->cross_kv, rows, w.x, w.width, w.wide, w.wide_width, w.scratch);
    int inner = m->heads * m->d_head;
    for (int i = 0, row = 0; i < n; row += lengths[i++]) {
        sentence *old = b->kept ? b->sentences[b->count + --b->kept] : NULL;
        sentence *s = sentence_begin(m, old, lengths[i], limits[i], width);
        if (!s) return 0;
        /* The finished sentence in its place, if any, moves to the end. */
        b->sentences[b->count + b->kept] = b->sentences[b->count];
        b->sentences[b->count++] = s;
        b->rows++;
        for (int l = 0; l < m->decoder.n_layers; l++) {
            const float *pairs[WIDTH];
            float *to = cross_of(m, s, l);
            for (int j = 0; j < lengths[i]; j++) {
                pairs[j % WIDTH] = w.wide + (ptrdiff_t)(row + j) * w.wide_width + 2 * l * inner;
                if (j >= lengths[i] / WIDTH * WIDTH) /* a single pair */
                    memcpy(to, pairs[j % WIDTH], sizeof(float) * 2 * inner), to += pair_stride(m);
                else if (j % WIDTH == WIDTH - 1)
                    pack(m->heads, m->d_head, pairs, to), to += block_size(inner);
            }
        }
    }
    return 1;
}

/* Adds n sentences to the batch; `ids`: their tokens, concatenated. Returns 0 if memory is exhausted. */
int batch_join(const model *m, batch *b, int n, const int32_t *lengths, const int32_t *limits, const int32_t *ids,
               int width) {
    int first = 0, rows = 0;
    for (int i = 0; i < n; i++) {
        rows += lengths[i];
        if (rows < ROWS_PER_PASS && i < n - 1) continue;
        if (!join_some(m, b, i + 1 - first, lengths + first, limits + first, ids, width)) return 0;
        ids += rows, first = i + 1, rows = 0;
    }
    return 1;
}

/* Self-attention of every hypothesis to its target so far; the result is left in w->y. */
static void self_attention(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const stack *d = &m->decoder;
    const layer *l = d->layers + number;
    int inner = m->heads * m->d_head;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        keys k = shared_keys(m, s->length / WIDTH, s->length % WIDTH + 1, w);
        k.per_query = 1;
        if (d->bias) bias_of(m, d, number, s->length, 0, &k);
        for (int r = 0; r < s->rows; r++) {
            float *qkv = w->wide + (ptrdiff_t)(row + r) * w->wide_width;
            rotate_heads(m, s->length, qkv);
            rotate_heads(m, s->length, qkv + inner);
            memcpy(single_of(m, s, number, s->length, r), qkv + inner, sizeof(float) * 2 * inner);
        }
        for (int r = 0; r < s->rows; r += QUERIES) {
            int queries = s->rows - r < QUERIES ? s->rows - r : QUERIES;
            for (int q = 0; q < queries; q++) {
                const uint16_t *slots = s->slots + (r + q) * n_slots(s);
                for (int j = 0; j < k.n_blocks; j++) w->blocks[q * k.n_blocks + j] = packed_of(m, s, number, j, slots[WIDTH + j]);
                for (int j = 0; j < k.n_single; j++) w->single[q * k.n_single + j] = single_of(m, s, number, j, slots[j]);
            }
            attend(&k, queries, w->wide + (ptrdiff_t)(row + r) * w->wide_width, w->wide_width,
                   w->h + (ptrdiff_t)(row + r) * w->width, w->width);
        }
        row += s->rows;
    }
    multiply(&l->out, rows, w->h, w->width, w->y, w->width, w->scratch);
}

/* The same for an SSRU decoder, which keeps one vector per layer: each hypothesis continues from its parent's cell. */
static void recurrence(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const layer *l = m->decoder.layers + number;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        for (int r = 0; r < s->rows; r++, row++) {
            const float *candidate = w->wide + (ptrdiff_t)row * w->wide_width, *past = NULL;
            if (s->length)
                past = single_of(m, s, number, s->length - 1, s->slots[r * n_slots(s) + (s->length - 1) % WIDTH]);
            recur(m->d_model, candidate, candidate + whole_panels(m->d_model), past, single_of(m, s, number, s->length, r),
                  w->y + (ptrdiff_t)row * w->width);
        }
    }
}

/* batch_step for n sentences with this many rows in total. */
static int step_some(const model *m, batch *b, sentence **sentences, int n, int rows, const int32_t *tokens, int n_never,
                     const int32_t *never, int count, float *logits, float *sums, float *log_ps, int32_t *likeliest) {
    const stack *d = &m->decoder;
    int inner = m->heads * m->d_head, longest = 0;
    for (int i = 0; i < n; i++) {
        const sentence *s = sentences[i];
        int most = s->source > s->length + 1 ? s->source : s->length + 1;
        longest = most > longest ? most : longest;
    }
    buffers w;
    if (!buffers_for(m, b, rows, 0, longest, 0, &w)) return 0;
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        prepare_step(m, s);
        for (int r = 0; r < s->rows; r++, row++) embed(m, d, tokens[row], s->length, w.x + (ptrdiff_t)row * w.width);
    }
    for (int number = 0; number < d->n_layers; number++) {
        const layer *l = d->layers + number;
        (m->recurrent ? recurrence : self_attention)(m, number, sentences, n, rows, &w);
        after(m, &l->self_norm, rows, &w);

        multiply(&l->cross_q, rows, before(m, &l->cross_norm, rows, &w), w.width, w.wide, w.wide_width, w.scratch);
        for (int i = 0, row = 0; i < n; i++) {
            sentence *s = sentences[i];
            keys k = shared_keys(m, s->source / WIDTH, s->source % WIDTH, &w);
            const float *cross = cross_of(m, s, number), *single = cross + k.n_blocks * block_size(inner);
            for (int j = 0; j < k.n_blocks; j++) w.blocks[j] = cross + j * block_size(inner);
            for (int j = 0; j < k.n_single; j++) w.single[j] = single + (ptrdiff_t)j * pair_stride(m);
            for (int r = 0; r < s->rows; r += QUERIES)
                attend(&k, s->rows - r < QUERIES ? s->rows - r : QUERIES, w.wide + (ptrdiff_t)(row + r) * w.wide_width,
                       w.wide_width, w.h + (ptrdiff_t)(row + r) * w.width, w.width);
            row += s->rows;
        }
        multiply(&l->cross_out, rows, w.h, w.width, w.y, w.width, w.scratch);
        after(m, &l->cross_norm, rows, &w);

        feed_forward(m, l, rows, &w);
    }
    finish(m, d, rows, &w);
    if (m->output_scale != 1)
        for (ptrdiff_t i = 0; i < (ptrdiff_t)rows * w.width; i++) w.x[i] *= m->output_scale;
    for (int i = 0; i < n; i++) sentences[i]->length++;
    multiply(&m->output, rows, w.x, w.width, logits, m->output.outputs, w.scratch);
    for (int i = 0; i < rows; i++, log_ps += count, likeliest += count) {
        const float *row = logits + (ptrdiff_t)i * m->output.outputs;
        sums[i] = log_sum(m->vocab_size, row);
        if (count) largest_of(m->vocab_size, row, n_never, never, count, log_ps, likeliest);
        for (int k = 0; k < count; k++) log_ps[k] = log_p_of(log_ps[k], sums[i]);
    }
    return 1;
}

/* Extends every hypothesis by its token, sentence by sentence. Outputs for each: the logits of the next token; the log of
   the sum of their exponentials; the log-probabilities of the `count` most likely tokens excluding `never`, and those
   tokens. Returns 0 if memory is exhausted. */
int batch_step(const model *m, batch *b, const int32_t *tokens, int n_never, const int32_t *never, int count, float *logits,
               float *sums, float *log_ps, int32_t *likeliest) {
    int groups = (b->rows + ROWS_PER_PASS - 1) / ROWS_PER_PASS, most = (b->rows + groups - 1) / groups; /* of similar size */
    for (int i = 0, first = 0, rows = 0, row = 0; i < b->count; i++) {
        rows += b->sentences[i]->rows;
        if (rows < most && i < b->count - 1) continue;
        if (!step_some(m, b, b->sentences + first, i + 1 - first, rows, tokens + row, n_never, never, count,
                       logits + (ptrdiff_t)row * m->output.outputs, sums + row, log_ps + (ptrdiff_t)row * count,
                       likeliest + (ptrdiff_t)row * count))
            return 0;
        row += rows, first = i + 1, rows = 0;
    }
    return 1;
}

/* Continues with these rows of all sentences in this order; those of a sentence stay together. A sentence without rows
   is finished. */
void batch_keep(batch *b, int count, const int32_t *rows) {
    int count_before = b->count, running = 0, before = 0, next = 0;
    for (int i = 0; i < count_before; i++) {
        sentence *s = b->sentences[i];
        int had = s->rows, first = next;
        while (next < count && rows[next] < before + had) next++;
        keep_rows(s, next - first, rows + first, before);
        before += had;
        if (s->rows) { /* a running sentence swaps places with the first finished one */
            b->sentences[i] = b->sentences[running];
            b->sentences[running++] = s;
        }
    }
    b->count = running, b->kept += count_before - running, b->rows = count;
}

/* Starts a beam search for each of the newest n sentences. `prefixes`: their forced prefixes, concatenated. Returns 0 if
   memory is exhausted. */
int batch_search(batch *b, const beam *settings, int n, const int32_t *numbers, const int32_t *shortest,
                 const int32_t *n_prefix, const int32_t *prefixes) {
    for (int i = 0; i < n; prefixes += n_prefix[i++]) {
        sentence *s = b->sentences[b->count - n + i];
        if (!search_begin(&s->search, settings, numbers[i], shortest[i], s->limit, n_prefix[i], prefixes)) return 0;
    }
    return 1;
}

/* Takes up to `steps` steps, until a sentence is finished. Returns the number of finished sentences, which are stored after
   the running ones; -1 if memory is exhausted, -2 if the logits are NaN. */
int batch_advance(const model *m, batch *b, const beam *settings, int steps) {
    while (steps--) {
        int rows = b->rows, most = b->count * settings->width, k = settings->looked_at;
        size_t sizes[] = {
            sizeof(float) * rows * m->output.outputs,  sizeof(float) * rows, sizeof(float) * rows * k,
            sizeof(int32_t) * rows * k, sizeof(child) * settings->width * k, sizeof(int32_t) * most,
        };
        void *at[6];
        if (!parts_of(&b->search_work, 6, sizes, at)) return -1;
        float *logits = at[0], *sums = at[1], *log_ps = at[2];
        int32_t *tokens = at[3], *chosen = at[5];
        child *children = at[4];

        for (int i = 0, row = 0; i < b->count; i++) {
            const search *s = &b->sentences[i]->search;
            for (int r = 0; r < s->n_growing; r++) chosen[row++] = s->now[r].node < 0 ? m->bos : s->nodes[s->now[r].node].token;
        }
        if (!batch_step(m, b, chosen, settings->n_never, settings->never, k, logits, sums, log_ps, tokens)) return -1;

        int before = 0, kept = 0, running_before = b->count;
        for (int i = 0; i < b->count; i++) {
            sentence *s = b->sentences[i];
            int length = s->length - 1, count = 0; /* length: without the start token */
            for (int r = 0; r < s->rows; r++) {
                ptrdiff_t row = before + r;
                if (isnan(sums[row])) return -2;
                int found = candidates(&s->search, settings, length, m->vocab_size, logits + row * m->output.outputs,
                                       sums[row], log_ps + row * k, tokens + row * k);
                for (int rank = 0; rank < found; rank++) {
                    float log_p = log_ps[row * k + rank];
                    children[count++] = (child){-s->search.now[r].total - log_p, r, rank, tokens[row * k + rank], log_p};
                }
            }
            int had = s->rows, running = advance(&s->search, settings, length, count, children, chosen + kept);
            if (running < 0) return -1;
            for (int r = 0; r < running; r++) chosen[kept + r] += before;
            kept += running, before += had;
        }
        batch_keep(b, kept, chosen);
        if (b->count < running_before) return running_before - b->count;
    }
    return 0;
}

/* The results of the i-th finished sentence. Returns the number of hypotheses; outputs for each, best first, its length,
   its score, its tokens and their log-probabilities, `stride` apart. */
int batch_found(const batch *b, int i, int stride, int32_t *number, int32_t *lengths, double *scores, int32_t *tokens,
                float *log_ps) {
    const search *s = &b->sentences[b->count + i]->search;
    *number = s->number;
    for (int k = 0; k < s->n_best; k++) {
        const ended *one = s->best + k;
        lengths[k] = one->length, scores[k] = one->score;
        int n = one->node;
        for (int j = one->length - 1; j >= 0; j--, n = s->nodes[n].parent)
            tokens[k * stride + j] = s->nodes[n].token, log_ps[k * stride + j] = s->nodes[n].log_p;
    }
    return s->n_best;
}
