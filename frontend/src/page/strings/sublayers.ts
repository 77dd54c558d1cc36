// Texts of the screen `sublayers`: residual, norm, feed-forward.
import { plural } from '../../figures/formatting';

export const sublayers = {
  title: 'Residual, norm, feed-forward',
  at: (stack: string, layer: number) =>
    `${stack === 'encoder' ? 'Encoder' : 'Decoder'} layer ${layer} · residual, norm, feed-forward`,
  intro: (first: boolean, rms: boolean) =>
    `Around every sub-layer f there is a residual connection. This model computes ${first ? 'x + f(norm(x)) (pre-norm): the residual stream itself is not normalised' : 'norm(x + f(x)) (post-norm), as in the paper'}; its norm is ${rms ? 'RMSNorm, which divides by the root mean square' : 'LayerNorm, which subtracts the mean and divides by σ'}.`,
  stack: 'Stack',
  stacks: { encoder: 'encoder', decoder: 'decoder' },
  from: 'Numbers from column',
  around: (part: string, first: boolean) =>
    `Residual connection around the ${part}: ${first ? 'normalise, then add' : 'add, then normalise'}`,
  rows: (id: string, part: string, first: boolean) =>
    ({
      x: 'input x',
      out: `output of the ${part}`,
      sum: first ? 'sum, passed on' : 'sum',
      standard: 'normalised',
      gamma: 'γ, learned',
      beta: 'β, learned',
      norm: first ? `input of the ${part}` : 'result, passed on',
    })[id] ?? id,
  last: (stack: string) => `Final norm of the ${stack}`,
  lastRows: (id: string, stack: string) =>
    ({
      x: 'output of the last layer',
      standard: 'normalised',
      gamma: 'γ, learned',
      beta: 'β, learned',
      norm: stack === 'encoder' ? 'memory' : 'input of the output projection',
    })[id] ?? id,
  mean: 'mean',
  sigma: 'σ',
  rootMeanSquare: 'root mean square',
  length: 'length of the vector',
  kinds: { stream: 'residual', normed: 'normalised', gamma: 'γ', beta: 'β' },
  numbers: (from: number, to: number) => `Numbers of columns ${from} to ${to}`,
  column: 'column',
  openAttention: (part: string) => `Open this ${part}`,
  feed: {
    title: 'Inside the feed-forward',
    formula: (gated: boolean, act: string, bias: boolean) =>
      gated
        ? `h = ${act}(x W_gate) × (x W₁), output = h W₂${bias ? ', each product with its bias' : ''}.`
        : `h = ${act}(x W₁${bias ? ' + b₁' : ''}), output = h W₂${bias ? ' + b₂' : ''}.`,
    times: 'times',
    out: 'output',
    matrices: { gate_proj: 'W_gate', up_proj: 'W₁', down_proj: 'W₂' } as Record<string, string>,
    fetch: (count: number, megabytes: string) => `Recompute it: fetch ${count} matrices, ${megabytes} MB`,
    zeros: (n: number, of: number, share: string) => `${n} of ${of} (${share}) are exactly 0 after relu.`,
    small: (n: number, of: number, share: string, act: string) =>
      `${n} of ${of} (${share}) are below 1 % of the largest; ${act} leaves few exact zeros.`,
    few: (n: number, of: number) => `${n} of ${of} neurons make up 90 % of the sum of all contributions.`,
    neurons: (n: number, of: number) => `The first ${n} of ${of} neurons`,
    unknown: 'Without W₂ only the size of h is known; neurons are sorted by it.',
    sorts: { n: 'neuron', h: 'h', length: '‖h · w‖', share: 'of the output' },
    sortHint:
      '‖h · w‖: length of the vector that a neuron adds. Of the output: its component along the output; all neurons and the bias add up to 100 %.',
    neuron: 'Neuron',
    activations: 'Activation at each token',
    factors: ['x', 'w'] as [string, string],
    cause: (n: number) => `How h of neuron ${n} is computed`,
    causeOf: (matrix: string, n: number) => `x · row ${n} of ${matrix}: all products, the largest first`,
    withBias: (bias: string, sum: string) => `With the bias ${bias}: ${sum}.`,
    becomes: (act: string, sum: string, h: string) => `${act}(${sum}) = ${h}`,
    becomesGated: (act: string, gate: string, up: string, h: string) => `${act} of the gate, ${gate}, × ${up} = ${h}`,
    active: (n: number, of: number) => `active at ${n} of ${plural(of, 'token')}`,
  },
  unit: {
    title: 'Inside the recurrent unit',
    formula: 'c = f × previous c + (1 − f) × candidate, output = max(0, c): one vector holds the target so far.',
    forget: 'f, forget gate',
    keeps: (share: string) => `f is ${share} on average: 1 keeps everything, 0 forgets everything.`,
    before: 'previous c',
    candidate: 'candidate',
    cell: 'c',
    out: 'output',
    vectors: 'the others',
  },
};
