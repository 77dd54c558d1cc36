/* Beam search for one sentence, as in decoding/beam.py, the readable reference: bitwise the same choices. */

#pragma once

#include <stdlib.h>

#include "rows.h"

/* Settings common to all sentences. */
typedef struct {
    int32_t eos, width, n_best, keep_greedy;
    int32_t looked_at; /* candidates per hypothesis */
    const uint8_t *never; /* per token, whether it is never generated; NULL for none */
    double length_penalty;
} beam;

/* The newest token of an unfinished target, linked to the token before it. */
typedef struct {
    int32_t parent, token, row; /* row: of the hypothesis that it continues, in the step that found it */
    float log_p;
} node;

typedef struct {
    int32_t node; /* -1 for the start */
    int32_t greedy;
    double total;
} growing;

typedef struct {
    int32_t node, length;
    double score;
} ended;

typedef struct {
    double loss;
    int32_t row, rank, token;
    float log_p;
} child;

/* The running search of one sentence. */
typedef struct {
    int32_t number, shortest, limit, n_prefix, n_nodes, n_growing, n_best;
    int32_t nodes_capacity, growing_capacity, best_capacity, prefix_capacity;
    int32_t *prefix;
    node *nodes;
    growing *now, *next;
    ended *best;
} search;

static double penalised(double total, int length, double penalty) { return total / pow(length, penalty); }

static void search_free(search *s) { free(s->prefix), free(s->nodes), free(s->now), free(s->next), free(s->best); }

/* Grows an array to the needed capacity; 0 if memory is exhausted. */
static int reserve(void **at, int32_t *capacity, int32_t needed, size_t size) {
    if (*at && *capacity >= needed) return 1;
    void *more = realloc(*at, size * needed);
    if (!more) return 0;
    *at = more, *capacity = needed;
    return 1;
}

static int search_begin(search *s, const beam *settings, int number, int shortest, int limit, int n_prefix,
                        const int32_t *prefix) {
    int32_t next_capacity = s->growing_capacity;
    if (!reserve((void **)&s->prefix, &s->prefix_capacity, n_prefix + 1, sizeof(int32_t)) ||
        !reserve((void **)&s->nodes, &s->nodes_capacity, 64, sizeof(node)) ||
        !reserve((void **)&s->next, &next_capacity, settings->width, sizeof(growing)) ||
        !reserve((void **)&s->now, &s->growing_capacity, settings->width, sizeof(growing)) ||
        !reserve((void **)&s->best, &s->best_capacity, settings->n_best + 1, sizeof(ended)))
        return 0;
    s->number = number, s->shortest = shortest, s->limit = limit, s->n_prefix = n_prefix;
    memcpy(s->prefix, prefix, sizeof(int32_t) * n_prefix);
    s->n_nodes = s->n_best = 0, s->n_growing = 1;
    s->now[0] = (growing){.node = -1, .greedy = 1, .total = 0};
    return 1;
}

/* The logit of a token: of a sorted list if it is given, -inf if the token is not in it. */
static float logit_of(int size, const int32_t *list, const float *logits, int token) {
    if (!list) return logits[token];
    int first = 0;
    while (size > 0) { /* binary search among `size` tokens from `first` on */
        int half = size / 2;
        if (list[first + half] < token) first += half + 1, size -= half + 1;
        else if (list[first + half] == token) return logits[first + half];
        else size = half;
    }
    return -INFINITY;
}

/* The candidates of a row: the most likely tokens, unless a rule applies at this position. Returns their number. The
   logits are of all tokens, or of a sorted list. */
static int candidates(const search *s, const beam *settings, int length, int size, const int32_t *list,
                      const float *logits, float log_sum, float *log_ps, int32_t *tokens) {
    int forced = length < s->n_prefix ? s->prefix[length] : s->limit - length < 2 ? settings->eos : -1;
    if (forced < 0 && length < s->shortest) { /* the end of sentence is not allowed yet */
        largest_of(size, logits, list, settings->never, settings->eos, settings->looked_at, log_ps, tokens);
        for (int k = 0; k < settings->looked_at; k++) log_ps[k] = log_p_of(log_ps[k], log_sum);
        if (log_ps[0] == -INFINITY) forced = settings->eos; /* if no token is left, the sentence ends */
    }
    if (forced >= 0) log_ps[0] = log_p_of(logit_of(size, list, logits, forced), log_sum), tokens[0] = forced;
    int count = forced >= 0 ? 1 : settings->looked_at;
    while (count && log_ps[count - 1] == -INFINITY) count--;
    return count;
}

static int better(const void *a, const void *b) {
    const child *one = a, *other = b;
    if (one->loss != other->loss) return one->loss < other->loss ? -1 : 1;
    if (one->row != other->row) return one->row - other->row;
    return one->rank - other->rank;
}

/* Sorts best first; insertion sort for few children, which is nearly always the case. */
static void ranked(int count, child *children) {
    if (count > 64) {
        qsort(children, count, sizeof(child), better);
        return;
    }
    for (int i = 1; i < count; i++) {
        child one = children[i];
        int j = i;
        for (; j && better(&one, children + j - 1) < 0; j--) children[j] = children[j - 1];
        children[j] = one;
    }
}

/* Appends a token to an unfinished hypothesis; -1 if memory is exhausted. */
static int append_token(search *s, const growing *parent, const child *by) {
    int32_t needed = s->nodes_capacity;
    if (s->n_nodes == needed) needed = needed <= INT32_MAX / 2 ? 2 * needed : INT32_MAX;
    if (s->n_nodes == INT32_MAX || !reserve((void **)&s->nodes, &s->nodes_capacity, needed, sizeof(node))) return -1;
    s->nodes[s->n_nodes] = (node){.parent = parent->node, .token = by->token, .row = by->row, .log_p = by->log_p};
    return s->n_nodes++;
}

/* Inserts a finished hypothesis into the n best, after those of equal score. */
static void end(search *s, const beam *settings, int node, int length, double total) {
    ended one = {.node = node, .length = length, .score = penalised(total, length, settings->length_penalty)};
    int i = s->n_best < settings->n_best ? s->n_best++ : settings->n_best;
    for (; i && one.score > s->best[i - 1].score; i--) s->best[i] = s->best[i - 1];
    if (i < settings->n_best) s->best[i] = one;
}

/* Whether an unfinished hypothesis could still reach the n best. */
static int may_improve(const search *s, const beam *settings) {
    if (!s->n_growing || s->n_best < settings->n_best) return s->n_growing > 0;
    if (settings->width == 1) return 0;
    double most = s->now[0].total;
    for (int i = 1; i < s->n_growing; i++) most = s->now[i].total > most ? s->now[i].total : most;
    return penalised(most, s->limit, settings->length_penalty) > s->best[s->n_best - 1].score;
}

/* Takes one step with these continuations. `rows`: the parent rows of the new hypotheses. Returns their number, 0 when
   the search is over, -1 if memory is exhausted. */
static int advance(search *s, const beam *settings, int length, int count, child *children, int32_t *rows) {
    ranked(count, children);
    int kept = 0;
    for (int place = 0; place < count; place++) {
        const child *by = children + place;
        const growing *parent = s->now + by->row;
        int greedy = parent->greedy && by->rank == 0, protected = settings->keep_greedy && greedy;
        int is_end = by->token == settings->eos;
        if (is_end ? place >= settings->width && !protected : kept == settings->width && !protected) continue;
        int new_node = append_token(s, parent, by);
        if (new_node < 0) return -1;
        double total = parent->total + by->log_p;
        if (is_end) {
            end(s, settings, new_node, length + 1, total);
        } else {
            int to = kept < settings->width ? kept++ : settings->width - 1;
            s->next[to] = (growing){.node = new_node, .greedy = greedy, .total = total};
            rows[to] = by->row;
        }
    }
    growing *old = s->now;
    s->now = s->next, s->next = old;
    s->n_growing = kept;
    if (!may_improve(s, settings)) s->n_growing = 0;
    return s->n_growing;
}
