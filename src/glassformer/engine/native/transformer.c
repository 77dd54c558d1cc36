/* A whole Transformer: encodes sources, and extends targets by one token per call.

   Sentences keep their own lengths: nothing is padded, and sentences may join or leave a running batch. */

#include "layers.h"
#include "processor.h"

/* Results of calls that fail or are refused. */
enum { NO_MEMORY_IN_SEARCH = -1, NOT_FINITE = -2, WRONG_ROWS = -3, TOO_LONG = -4, WRONG_LIST = -5 };

/* Rows that pass through the layers together, approximately: as many as fit into the cache. */
#define ROWS_PER_PASS 56

/* -------------------------------------------------------------------------------------------- called from Python */

int panel_columns(void) { return PANEL; }

/* Whether products in bfloat16 are instructions of the processor. Otherwise they are computed in float32. */
int multiplies_bfloat16(void) {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

/* Sizes and constants that engine/native_structs.py repeats, in its order; 0 after the last. */
int layout(int number) {
    const int slot = sizeof *((sentence *)0)->slots;
    const int all[] = {sizeof(norm), sizeof(product), sizeof(layer), sizeof(stack), sizeof(model), sizeof(beam), slot,
                       ROWS_PER_PASS, NO_MEMORY_IN_SEARCH, NOT_FINITE, WRONG_ROWS, TOO_LONG, WRONG_LIST,
                       RELU, GELU, GELU_TANH, SILU, FLOAT32, FLOAT16, BFLOAT16, INT8};
    return number < (int)(sizeof all / sizeof *all) ? all[number] : 0;
}

/* Memory for packed weights. */
void *memory_new(size_t size) { return large_pages(size); }

void memory_free(void *address) { aligned_free(address); }

batch *batch_new(void) { return calloc(1, sizeof(batch)); }

void batch_free(batch *b) {
    for (int i = 0; i < b->count + b->kept; i++) sentence_free(b->sentences[i]);
    groups_free(&b->groups), free(b->sentences), aligned_free(b->work.at), aligned_free(b->search_work.at), free(b);
}

static int join_some(const model *m, batch *b, int n, const int32_t *lengths, const int32_t *limits, const int32_t *ids,
                     int width) {
    int rows = 0, longest = 0;
    for (int i = 0; i < n; i++) rows += lengths[i], longest = lengths[i] > longest ? lengths[i] : longest;
    buffers w;
    sentence **more = realloc(b->sentences, sizeof(sentence *) * ((size_t)b->count + b->kept + n));
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
                pairs[j % WIDTH] = w.wide + (ptrdiff_t)(row + j) * w.wide_width + (ptrdiff_t)2 * l * inner;
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

/* Restricts each of the newest n sentences to a list of tokens, sorted, which must contain the end of sentence and all
   tokens that are forced; `lists`: all of them, concatenated. In a batch, all sentences have a list or none has. Returns 0
   if memory is exhausted; WRONG_LIST, and changes nothing, if there are not n sentences, or if a list is empty, not sorted,
   or has a token that does not exist. */
int batch_restrict(const model *m, batch *b, int n, const int32_t *sizes, const int32_t *lists) {
    if (n > b->count || !lists_are_sorted(m->vocab_size, n, sizes, lists)) return WRONG_LIST;
    for (int i = 0; i < n; lists += sizes[i++])
        if (!restrict_to(m, &b->groups, b->sentences[b->count - n + i], sizes[i], lists)) return 0;
    return 1;
}

/* step_all for n sentences with this many rows in total. */
static int step_some(const model *m, batch *b, sentence **sentences, int n, int rows, const int32_t *tokens,
                     const uint8_t *never, int count, float *logits, ptrdiff_t stride, float *sums, float *log_ps,
                     int32_t *likeliest) {
    int longest = 0;
    for (int i = 0; i < n; i++) {
        const sentence *s = sentences[i];
        int most = s->source > s->length + 1 ? s->source : s->length + 1;
        longest = most > longest ? most : longest;
    }
    int listed = sentences[0]->list_size > 0;
    buffers w;
    if (!buffers_for(m, b, rows, listed ? widest_group(&b->groups) : 0, longest, 0, &w)) return 0;
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        prepare_step(m, s);
        if (!reserve_attention(s, s->length + 1)) return 0;
        for (int r = 0; r < s->rows; r++, row++) embed(m, &m->decoder, tokens[row], s->length, w.x + (ptrdiff_t)row * w.width);
    }
    decode(m, m->recurrent ? recurrence : self_attention, sentences, n, rows, &w);
    for (int i = 0; i < n; i++) sentences[i]->length++;
    rows_at x = {w.x, w.width}, y = {w.y, w.width}, wide = {w.wide, w.wide_width};
    if (listed) listed_logits(&b->groups, sentences, n, x, y, wide, w.scratch, (rows_at){logits, stride});
    else multiply(&m->output, rows, w.x, w.width, logits, stride, w.scratch);
    for (int i = 0, row = 0; i < n; i++) {
        const sentence *s = sentences[i];
        int size = listed ? s->list_size : m->vocab_size;
        for (int r = 0; r < s->rows; r++, row++, logits += stride, log_ps += count, likeliest += count) {
            sums[row] = log_sum(size, logits);
            if (count) largest_of(size, logits, listed ? s->list : NULL, never, -1, count, log_ps, likeliest);
            for (int k = 0; k < count; k++) log_ps[k] = log_p_of(log_ps[k], sums[row]);
        }
    }
    return 1;
}

/* batch_step with logits that are `stride` apart; those of a sentence with a shortlist are in the order of its list. */
static int step_all(const model *m, batch *b, int n_tokens, const int32_t *tokens, const uint8_t *never, int count,
                    float *logits, ptrdiff_t stride, float *sums, float *log_ps, int32_t *likeliest) {
    if (n_tokens != b->rows || !b->rows) return WRONG_ROWS;
    for (int i = 0; i < b->count; i++) {
        if (b->sentences[i]->length >= b->sentences[i]->limit) return TOO_LONG;
        if (!b->sentences[i]->list_size != !b->sentences[0]->list_size) return WRONG_LIST;
    }
    for (int i = 0; i < b->groups.count; i++) drop_unused(&b->groups, i, b->sentences, b->count);
    int groups = (b->rows + ROWS_PER_PASS - 1) / ROWS_PER_PASS, most = (b->rows + groups - 1) / groups; /* of similar size */
    for (int i = 0, first = 0, rows = 0, row = 0; i < b->count; i++) {
        rows += b->sentences[i]->rows;
        if (rows < most && i < b->count - 1) continue;
        if (!step_some(m, b, b->sentences + first, i + 1 - first, rows, tokens + row, never, count, logits + row * stride,
                       stride, sums + row, log_ps + (ptrdiff_t)row * count, likeliest + (ptrdiff_t)row * count))
            return 0;
        row += rows, first = i + 1, rows = 0;
    }
    return 1;
}

/* Extends every hypothesis by its token, sentence by sentence. Outputs for each: the logits of the next token; the log of
   the sum of their exponentials; the log-probabilities of the `count` most likely tokens excluding `never`, and those
   tokens. With a shortlist all of this is over its tokens only; the logits of others are -inf. Returns 0 if memory is
   exhausted, WRONG_ROWS if there is not one token per row or there are no rows, TOO_LONG if a target has as many tokens as
   were announced, WRONG_LIST if only some sentences have a shortlist. */
int batch_step(const model *m, batch *b, int n_tokens, const int32_t *tokens, const uint8_t *never, int count, float *logits,
               float *sums, float *log_ps, int32_t *likeliest) {
    ptrdiff_t stride = m->output.outputs;
    int stepped = step_all(m, b, n_tokens, tokens, never, count, logits, stride, sums, log_ps, likeliest);
    for (int i = 0; stepped == 1 && i < b->count; i++)
        for (int r = 0; r < b->sentences[i]->rows; r++, logits += stride)
            if (b->sentences[i]->list_size) spread_out(b->sentences[i], m->vocab_size, logits);
    return stepped;
}

/* Continues with these rows of all sentences in this order; those of a sentence stay together. A sentence without rows
   is finished. Returns WRONG_ROWS, and changes nothing, if a row does not exist, if rows are not in the order of their
   sentences, or if a sentence would have more rows than it has memory for. */
int batch_keep(batch *b, int count, const int32_t *rows) {
    int known = 0, seen = 0;
    for (int i = 0; i < b->count; i++) {
        int from = known, first = seen;
        known += b->sentences[i]->rows;
        while (seen < count && rows[seen] >= from && rows[seen] < known) seen++;
        if (seen - first > b->sentences[i]->width) return WRONG_ROWS;
    }
    if (seen < count) return WRONG_ROWS;
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
        } else {
            leave_group(&b->groups, s);
        }
    }
    b->count = running, b->kept += count_before - running, b->rows = count;
    return 1;
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
   the running ones; NO_MEMORY_IN_SEARCH, NOT_FINITE if the logits are NaN, WRONG_ROWS if there are no sentences. */
int batch_advance(const model *m, batch *b, const beam *settings, int steps) {
    while (steps--) {
        if (!b->rows) return WRONG_ROWS;
        int k = settings->looked_at, widest = 0;
        for (int i = 0; i < b->count; i++) widest = b->sentences[i]->list_size > widest ? b->sentences[i]->list_size : widest;
        ptrdiff_t stride = widest ? whole_panels(widest) : m->output.outputs;
        size_t rows = b->rows, most = (size_t)b->count * settings->width;
        size_t sizes[] = {
            sizeof(float) * rows * stride,  sizeof(float) * rows, sizeof(float) * rows * k,
            sizeof(int32_t) * rows * k, sizeof(child) * settings->width * k, sizeof(int32_t) * most,
        };
        void *at[6];
        if (!parts_of(&b->search_work, 6, sizes, at)) return NO_MEMORY_IN_SEARCH;
        float *logits = at[0], *sums = at[1], *log_ps = at[2];
        int32_t *tokens = at[3], *chosen = at[5];
        child *children = at[4];

        for (int i = 0, row = 0; i < b->count; i++) {
            const search *s = &b->sentences[i]->search;
            for (int r = 0; r < s->n_growing; r++) chosen[row++] = s->now[r].node < 0 ? m->bos : s->nodes[s->now[r].node].token;
        }
        int stepped = step_all(m, b, b->rows, chosen, settings->never, k, logits, stride, sums, log_ps, tokens);
        if (stepped != 1) return stepped ? stepped : NO_MEMORY_IN_SEARCH;

        int before = 0, kept = 0, running_before = b->count;
        for (int i = 0; i < b->count; i++) {
            sentence *s = b->sentences[i];
            int length = s->length - 1, count = 0; /* length: without the start token */
            for (int r = 0; r < s->rows; r++) {
                ptrdiff_t row = before + r;
                if (isnan(sums[row])) return NOT_FINITE;
                int found = candidates(&s->search, settings, length, s->list_size ? s->list_size : m->vocab_size,
                                       s->list_size ? s->list : NULL, logits + row * stride, sums[row], log_ps + row * k,
                                       tokens + row * k);
                for (int rank = 0; rank < found; rank++) {
                    float log_p = log_ps[row * k + rank];
                    children[count++] = (child){-s->search.now[r].total - log_p, r, rank, tokens[row * k + rank], log_p};
                }
            }
            int had = s->rows, running = advance(&s->search, settings, length, count, children, chosen + kept);
            if (running < 0) return NO_MEMORY_IN_SEARCH;
            for (int r = 0; r < running; r++) chosen[kept + r] += before;
            kept += running, before += had;
        }
        batch_keep(b, kept, chosen);
        if (b->count < running_before) return running_before - b->count;
    }
    return 0;
}

/* The results of the i-th finished sentence. Returns the number of hypotheses; outputs for each, best first, its length,
   its score, and, unless `tokens` is NULL, its tokens and their log-probabilities, `stride` apart. */
int batch_found(const batch *b, int i, ptrdiff_t stride, int32_t *number, int32_t *lengths, double *scores, int32_t *tokens,
                float *log_ps) {
    const search *s = &b->sentences[b->count + i]->search;
    *number = s->number;
    for (int k = 0; k < s->n_best; k++) {
        const ended *one = s->best + k;
        lengths[k] = one->length, scores[k] = one->score;
        int n = one->node;
        for (int j = one->length - 1; tokens && j >= 0; j--, n = s->nodes[n].parent)
            tokens[k * stride + j] = s->nodes[n].token, log_ps[k * stride + j] = s->nodes[n].log_p;
    }
    return s->n_best;
}

#include "score.h"
