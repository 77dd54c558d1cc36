/* Vocabulary shortlists: the output product restricted to the tokens that the sentences of a batch may use.

   Each sentence has a sorted list of tokens, and belongs to a group of a few sentences. The columns of the output matrix
   for the lists of a group are copied from the packed matrix into panels of their own. A step multiplies by these panels
   only, and each sentence takes its logits from the result in the order of its own list. A logit does not depend on the
   place of its column, so results stay bitwise independent of the other sentences.

   A column that no sentence uses any more stays until its place is needed: sentences in succession share many tokens. */

#pragma once

#include "sentence.h"

/* The columns of the output matrix that a group of sentences uses. All arrays are in one allocation, at output.weight. */
typedef struct {
    product output;
    int32_t sentences;
    int32_t count, used, capacity; /* columns; those that a sentence uses; those that there is memory for */
    int32_t next;                  /* where the search for an unused column goes on */
    int32_t *tokens, *users;       /* per column: its token, and how many sentences use it */
} column_group;

/* The groups of a batch. */
typedef struct {
    column_group *groups;
    int32_t count, capacity;
    int32_t *column_of; /* per token of the vocabulary, its column in the group at hand; -1 between calls */
} column_groups;

/* Rows (hypotheses) of a group, approximately: more share the reading of a column, and multiply more that are not theirs. */
#define GROUP_ROWS 8

/* Adjacent numbers of a column in a packed panel: bytes, and how many inputs they are for; by precision. */
static const struct {
    int bytes, inputs;
} UNITS[] = {[FLOAT32] = {4, 1}, [FLOAT16] = {2, 1}, [BFLOAT16] = {4, 2}, [INT8] = {4, 4}};

/* Units of a column. */
static int column_depth(const product *by) {
    int inputs = UNITS[by->precision].inputs;
    return (by->inputs + inputs - 1) / inputs;
}

static void copy_column(const product *from, int column, const product *to, int place) {
    int bytes = UNITS[from->precision].bytes, depth = column_depth(from);
    const char *source = (const char *)from->weight + ((ptrdiff_t)(column / PANEL) * depth * PANEL + column % PANEL) * bytes;
    char *target = (char *)to->weight + ((ptrdiff_t)(place / PANEL) * depth * PANEL + place % PANEL) * bytes;
    for (int k = 0; k < depth; k++, source += PANEL * bytes, target += PANEL * bytes)
        bytes == 4 ? memcpy(target, source, 4) : memcpy(target, source, 2);
    ((float *)to->bias)[place] = from->bias[column];
    if (from->scale) ((float *)to->scale)[place] = from->scale[column], ((int32_t *)to->sums)[place] = from->sums[column];
}

static size_t column_bytes(const product *all) { return (size_t)column_depth(all) * UNITS[all->precision].bytes; }

/* Gives the arrays their places in an allocation for this many columns. */
static void place_arrays(column_group *g, const product *all, char *memory, int capacity) {
    int32_t *numbers = (int32_t *)(memory + capacity * column_bytes(all));
    g->output = (product){.precision = all->precision, .inputs = all->inputs, .weight = memory, .bias = (float *)numbers};
    if (all->scale) g->output.scale = (float *)(numbers + capacity), g->output.sums = numbers + 2 * (size_t)capacity;
    g->tokens = numbers + 3 * (size_t)capacity, g->users = numbers + 4 * (size_t)capacity;
    g->capacity = capacity;
}

/* Memory for at least this many columns; 0 if memory is exhausted. Columns without a token are zeros. */
static int reserve_columns(column_group *g, const product *all, int needed) {
    if (needed <= g->capacity) return 1;
    int capacity = whole_panels(needed + needed / 4);
    size_t size = (capacity * (column_bytes(all) + 5 * sizeof(int32_t)) + 63) / 64 * 64;
    char *memory = aligned_alloc(64, size);
    if (!memory) return 0;
    memset(memory, 0, size);
    column_group old = *g;
    place_arrays(g, all, memory, capacity);
    if (!old.capacity) return 1;
    memcpy(memory, old.output.weight, old.capacity * column_bytes(all));
    size_t numbers = sizeof(int32_t) * old.count;
    memcpy((void *)g->output.bias, old.output.bias, numbers);
    if (all->scale) memcpy((void *)g->output.scale, old.output.scale, numbers), memcpy((void *)g->output.sums, old.output.sums, numbers);
    memcpy(g->tokens, old.tokens, numbers), memcpy(g->users, old.users, numbers);
    aligned_free((void *)old.output.weight);
    return 1;
}

static void groups_free(column_groups *all) {
    for (int i = 0; i < all->count; i++) aligned_free((void *)all->groups[i].output.weight);
    free(all->groups), free(all->column_of);
}

/* The group that a new sentence joins: the first with a free place; NULL if memory is exhausted. */
static column_group *free_group(column_groups *all, const model *m, int width) {
    if (!all->column_of) {
        if (!(all->column_of = malloc(sizeof(int32_t) * m->vocab_size))) return NULL;
        memset(all->column_of, -1, sizeof(int32_t) * m->vocab_size);
    }
    int most = width < GROUP_ROWS ? GROUP_ROWS / width : 1, i = 0;
    while (i < all->count && all->groups[i].sentences >= most) i++;
    if (i == all->count) {
        if (i == all->capacity && !reserve((void **)&all->groups, &all->capacity, 2 * i + 8, sizeof(column_group))) return NULL;
        all->groups[all->count++] = (column_group){0};
    }
    return all->groups + i;
}

/* Sets column_of for a group's tokens, or unsets it. */
static void look_up(column_groups *all, const column_group *g, int set) {
    for (int i = 0; i < g->count; i++) all->column_of[g->tokens[i]] = set ? i : -1;
}

/* A column for a token that has none: the place of an unused one, or a new one. */
static void add_column(column_group *g, const product *all, int token, int32_t *column_of) {
    int place = g->count;
    if (g->used < g->count) {
        while (g->users[g->next]) g->next = (g->next + 1) % g->count;
        place = g->next;
        column_of[g->tokens[place]] = -1;
    } else {
        g->count++;
    }
    copy_column(all, token, &g->output, place);
    column_of[token] = place, g->tokens[place] = token, g->users[place] = 1, g->used++;
}

/* Whether n lists, concatenated, are sorted tokens of the vocabulary, and none is empty. */
static int lists_are_sorted(int vocab_size, int n, const int32_t *sizes, const int32_t *lists) {
    for (int i = 0; i < n; lists += sizes[i++]) {
        if (sizes[i] < 1 || lists[0] < 0 || lists[sizes[i] - 1] >= vocab_size) return 0;
        for (int j = 1; j < sizes[i]; j++)
            if (lists[j] <= lists[j - 1]) return 0;
    }
    return 1;
}

/* A finished sentence leaves its group. */
static void leave_group(column_groups *all, sentence *s) {
    if (!s->list_size) return;
    column_group *g = all->groups + s->group;
    for (int i = 0; i < s->list_size; i++)
        if (!--g->users[s->columns[i]]) g->used--;
    g->sentences--, s->list_size = 0;
}

/* Restricts a sentence to these tokens, sorted; 0 if memory is exhausted. */
static int restrict_to(const model *m, column_groups *all, sentence *s, int size, const int32_t *tokens) {
    leave_group(all, s);
    column_group *g = free_group(all, m, s->width);
    int32_t capacity = s->list_capacity;
    if (!g || !reserve_columns(g, &m->output, g->used + size > g->count ? g->used + size : g->count) ||
        !reserve((void **)&s->columns, &capacity, size, sizeof(int32_t)) ||
        !reserve((void **)&s->list, &s->list_capacity, size, sizeof(int32_t)))
        return 0;
    memcpy(s->list, tokens, sizeof(int32_t) * size);
    s->list_size = size, s->group = (int32_t)(g - all->groups), g->sentences++;
    look_up(all, g, 1);
    for (int i = 0; i < size; i++) { /* first those that are there, so that none of them is replaced */
        int column = s->columns[i] = all->column_of[tokens[i]];
        if (column >= 0 && !g->users[column]++) g->used++;
    }
    for (int i = 0; i < size; i++)
        if (s->columns[i] < 0) add_column(g, &m->output, tokens[i], all->column_of), s->columns[i] = all->column_of[tokens[i]];
    look_up(all, g, 0);
    return 1;
}

/* Removes a group's unused columns if they are many: those in use move to the places before. */
static void drop_unused(column_groups *all, int number, sentence **sentences, int n) {
    column_group *g = all->groups + number;
    if (4 * g->used >= 3 * g->count) return;
    look_up(all, g, 1);
    for (int from = g->count - 1, to = 0; from >= g->used; from--) {
        int token = g->tokens[from];
        all->column_of[token] = -1;
        if (!g->users[from]) continue;
        while (g->users[to]) to++;
        all->column_of[g->tokens[to]] = -1;
        copy_column(&g->output, from, &g->output, to);
        all->column_of[token] = to, g->tokens[to] = token, g->users[to] = g->users[from], g->users[from] = 0;
    }
    g->count = g->used, g->next = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < sentences[i]->list_size && sentences[i]->group == number; j++)
            sentences[i]->columns[j] = all->column_of[sentences[i]->list[j]];
    look_up(all, g, 0);
}

/* The widest result of a group's product. */
static int widest_group(const column_groups *all) {
    int widest = 0;
    for (int i = 0; i < all->count; i++) widest = all->groups[i].count > widest ? all->groups[i].count : widest;
    return whole_panels(widest);
}

/* Rows with their distance. */
typedef struct {
    float *at;
    ptrdiff_t stride;
} rows_at;

/* The logits of the rows x of n sentences, each in the order of its list; `some` and `wide`: buffers for the rows and the
   products of a group. */
static void listed_logits(column_groups *all, sentence **sentences, int n, rows_at x, rows_at some, rows_at wide, float *scratch,
                          rows_at logits) {
    for (int number = 0; number < all->count; number++) {
        column_group *g = all->groups + number;
        int rows = 0;
        for (int i = 0, row = 0; i < n; row += sentences[i++]->rows)
            for (int r = 0; r < sentences[i]->rows && sentences[i]->group == number; r++, rows++)
                memcpy(some.at + rows * some.stride, x.at + (row + r) * x.stride, sizeof(float) * x.stride);
        if (!rows) continue;
        g->output.outputs = whole_panels(g->count);
        multiply(&g->output, rows, some.at, some.stride, wide.at, wide.stride, scratch);
        rows = 0;
        for (int i = 0, row = 0; i < n; row += sentences[i++]->rows) {
            const sentence *s = sentences[i];
            for (int r = 0; r < s->rows && s->group == number; r++, rows++) {
                const float *from = wide.at + rows * wide.stride;
                float *to = logits.at + (row + r) * logits.stride;
                for (int j = 0; j < s->list_size; j++) to[j] = from[s->columns[j]];
            }
        }
    }
}

/* From the logits of a list to those of the vocabulary, in place: -inf for all other tokens. */
static void spread_out(const sentence *s, int vocab_size, float *logits) {
    int token = vocab_size;
    for (int i = s->list_size - 1; i >= 0; i--) { /* list[i] >= i: what is overwritten was read before */
        while (--token > s->list[i]) logits[token] = -INFINITY;
        logits[token] = logits[i];
    }
    while (--token >= 0) logits[token] = -INFINITY;
}
