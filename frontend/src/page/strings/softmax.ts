// Texts of the screen `softmax`: the output softmax.
export const softmax = {
  title: 'Output softmax',
  intro:
    'The decoder’s output vector is multiplied by one row per token of the vocabulary, which gives the token’s logit. The softmax turns all logits into probabilities that add up to 1.',
  next: 'which token is next?',
  hidden: 'Output vector of the decoder',
  scaled: (d: number) => `divided by √${d} before the product`,
  projection: (tied: string | null) =>
    tied === null
      ? 'The output projection has a matrix of its own,'
      : `The output projection shares its matrix with ${tied}:`,
  rows: (v: number, d: number) => `${v} tokens × ${d}`,
  biased: 'and one bias per token',
  recompute: (n: number) => `Recompute the logits: fetch ${n} rows`,
  list: (n: number, of: number) => `The ${n} most likely of ${of} tokens`,
  rank: 'rank',
  token: 'token',
  logit: 'logit',
  probability: 'probability',
  given: 'given',
  generated: 'generated',
  beyond: (n: number) => `not among the ${n} most likely`,
  rest: (n: number) => `${n} others together`,
  temperature: 'Temperature τ',
  temperatureHint:
    'softmax(logits / τ): below 1 likely tokens become more likely, above 1 all become more alike. The model was run at τ = 1, which the marks on the bars show.',
  noLogits: 'Other temperatures need the logits of all tokens, which this file does not contain.',
  entropy: (nats: string, as: string) => `Entropy ${nats} nats: that of a uniform choice among ${as} tokens.`,
  normaliser: (z: string) => `log Z = ${z}, so p = exp(logit − log Z).`,
  opens: 'Select a token to see how its logit is computed.',
  product: (token: string) => `Output vector · row of ${token}`,
  factors: ['x', 'w'] as [string, string],
  noWeights: 'This file contains no weights, so the products of a logit cannot be shown.',
  plusBias: (bias: string, logit: string) => `With the bias ${bias}: ${logit}.`,
  loss: {
    title: (given: boolean) => `Loss of the ${given ? 'given' : 'model’s own'} translation`,
    intro: (given: boolean) =>
      given
        ? 'Cross-entropy: − log p of each given token, after those before it. Training minimises this.'
        : 'Cross-entropy of the model’s own translation: − log p of each token. Give a translation on the first screen to score that one.',
    smoothing: 'Label smoothing ε',
    target: (right: string, other: string) =>
      `The training target is ${right} for the correct token and ${other} for each other one.`,
    token: 'token',
    p: 'p',
    cost: '− log p',
    smoothed: 'smoothed',
    sum: 'sum',
    mean: 'mean',
    perplexity: (x: string) => `Perplexity ${x}: e to the mean of − log p.`,
  },
};
