/* Given targets: the decoder reads all positions of several targets at once (teacher forcing).

   A position attends to the same blocks and single keys as in a step of a search, in the same order, so its
   log-probability and its attention are bitwise those that the search finds, and independent of the other pairs. Also
   here: the attention that a search recorded. */

#pragma once

/* In these functions a row of a sentence is a position of its target.

   Causal self-attention of every position; the result is left in w->y. */
static void causal_attention(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const stack *d = &m->decoder;
    const layer *l = d->layers + number;
    int inner = m->heads * m->d_head;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; row += sentences[i++]->rows)
        for (int first = 0, length = sentences[i]->rows; first < length; first += WIDTH) {
            int count = length - first < WIDTH ? length - first : WIDTH;
            for (int j = 0; j < count; j++) {
                float *qkv = w->wide + (ptrdiff_t)(row + first + j) * w->wide_width;
                rotate_heads(m, first + j, qkv);
                rotate_heads(m, first + j, qkv + inner);
                w->single[j] = qkv + inner;
            }
            keys k = shared_keys(m, first / WIDTH, 0, w);
            k.single_step = 1;
            for (int j = 0; j < count; j += QUERIES) {
                ptrdiff_t at = row + first + j;
                k.n_single = j + 1;
                if (d->bias) bias_of(m, d, number, first + j, -1, &k);
                attend(&k, count - j < QUERIES ? count - j : QUERIES, w->wide + at * w->wide_width, w->wide_width,
                       w->h + at * w->width, w->width);
            }
            if (first + WIDTH >= length) continue; /* no later position attends to a block of these */
            float *block = w->packed + first / WIDTH * block_size(inner);
            pack(m->heads, m->d_head, w->single, block);
            w->blocks[first / WIDTH] = block;
        }
    multiply(&l->out, rows, w->h, w->width, w->y, w->width, w->scratch);
}

/* The same for an SSRU decoder; a cell takes the place of its candidate. */
static void recurrence_of_all(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const layer *l = m->decoder.layers + number;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++)
        for (int j = 0; j < sentences[i]->rows; j++, row++) {
            float *cell = w->wide + (ptrdiff_t)row * w->wide_width;
            recur(m->d_model, cell, cell + whole_panels(m->d_model), j ? cell - w->wide_width : NULL, cell,
                  w->y + (ptrdiff_t)row * w->width);
        }
}

/* The log-probabilities of the tokens in rows of decoder output, a few rows at a time: their logits are as wide as the
   vocabulary. Returns 0 if memory is exhausted, NOT_FINITE if the logits are NaN. */
static int log_ps_of(const model *m, batch *b, int rows, const int32_t *tokens, const buffers *w, float *log_ps) {
    for (int first = 0; first < rows; first += ROWS_PER_PASS) {
        int count = rows - first < ROWS_PER_PASS ? rows - first : ROWS_PER_PASS;
        size_t size = sizeof(float) * count * m->output.outputs;
        void *logits;
        if (!parts_of(&b->search_work, 1, &size, &logits)) return 0;
        multiply(&m->output, count, w->x + (ptrdiff_t)first * w->width, w->width, logits, m->output.outputs, w->scratch);
        for (int i = 0; i < count; i++) {
            const float *row = (const float *)logits + (ptrdiff_t)i * m->output.outputs;
            float sum = log_sum(m->vocab_size, row);
            if (isnan(sum)) return NOT_FINITE;
            log_ps[first + i] = log_p_of(row[tokens[first + i]], sum);
        }
    }
    return 1;
}

/* batch_score for n sentences whose targets have this many tokens in total. */
static int score_some(const model *m, batch *b, sentence **sentences, int n, int rows, const int32_t *tokens,
                      float *log_ps) {
    int longest = 0, keys = 0;
    for (int i = 0; i < n; i++) {
        const sentence *s = sentences[i];
        longest = s->rows > longest ? s->rows : longest, keys = s->source > keys ? s->source : keys;
    }
    buffers w;
    if (!buffers_for(m, b, rows, 0, longest > keys ? longest : keys, longest, &w)) return 0;
    for (int i = 0, row = 0; i < n; i++) {
        if (!reserve_attention(sentences[i], sentences[i]->rows)) return 0;
        for (int j = 0; j < sentences[i]->rows; j++, row++)
            embed(m, &m->decoder, j ? tokens[row - 1] : m->bos, j, w.x + (ptrdiff_t)row * w.width);
    }
    decode(m, m->recurrent ? recurrence_of_all : causal_attention, sentences, n, rows, &w);
    return log_ps ? log_ps_of(m, b, rows, tokens, &w, log_ps) : 1;
}

/* Scores one target for each sentence of a batch of width 1 that has not taken a step; then they leave it. `lengths`: of
   the targets; `tokens`: theirs, concatenated. Outputs: the log-probability of each token, unless `log_ps` is NULL; the
   recorded attention of each sentence, by position, head and source token, unless `attention` is NULL. Returns 0 if
   memory is exhausted, NOT_FINITE if the logits are NaN, WRONG_ROWS for other batches, TOO_LONG for other lengths than from 1 to
   those that were announced. */
int batch_score(const model *m, batch *b, int n, const int32_t *lengths, const int32_t *tokens, float *log_ps,
                float *attention) {
    if (n != b->count || !n) return WRONG_ROWS;
    for (int i = 0; i < n; i++) {
        if (b->sentences[i]->length || b->sentences[i]->width != 1) return WRONG_ROWS;
        if (lengths[i] < 1 || lengths[i] > b->sentences[i]->limit) return TOO_LONG;
    }
    for (int i = 0, first = 0, rows = 0; i < n; i++) {
        b->sentences[i]->rows = lengths[i], rows += lengths[i];
        if (rows < ROWS_PER_PASS && i < n - 1) continue;
        int scored = score_some(m, b, b->sentences + first, i + 1 - first, rows, tokens, log_ps);
        if (scored != 1) return scored;
        tokens += rows, log_ps = log_ps ? log_ps + rows : NULL, first = i + 1, rows = 0;
    }
    for (int i = 0; i < n; i++) {
        const sentence *s = b->sentences[i];
        size_t size = attention_size(s) * lengths[i];
        if (attention && size) memcpy(attention, s->attention, sizeof(float) * size), attention += size;
    }
    return batch_keep(b, 0, lengths);
}

/* The newest n sentences record the weights of these cross-attention heads: `heads` has layer and head of the first
   sentence's `n_heads[0]`, then those of the second, ... Returns 0 if memory is exhausted. */
int batch_record(batch *b, int n, const int32_t *n_heads, const int32_t *heads) {
    for (int i = 0; i < n; heads += 2 * n_heads[i++]) {
        sentence *s = b->sentences[b->count - n + i];
        if (!n_heads[i]) continue;
        if (!reserve((void **)&s->heads, &s->heads_capacity, 2 * n_heads[i], sizeof(int32_t))) return 0;
        memcpy(s->heads, heads, sizeof(int32_t) * 2 * n_heads[i]);
        s->n_heads = n_heads[i];
    }
    return 1;
}

/* The attention that the search of the i-th finished sentence recorded for its k-th hypothesis: by position, head and
   source token. */
void batch_attention(const batch *b, int i, int k, float *attention) {
    const sentence *s = b->sentences[b->count + i];
    size_t size = attention_size(s);
    const ended *one = s->search.best + k;
    int n = one->node;
    for (int j = one->length - 1; size && j >= 0; j--, n = s->search.nodes[n].parent)
        memcpy(attention + j * size, attention_of(s, j, s->search.nodes[n].row), sizeof(float) * size);
}
