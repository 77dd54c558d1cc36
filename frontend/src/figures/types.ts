// Input data of the figures: plain numbers and tokens, as JSON. Independent of where they come from.

/** Values row by row; null where masked. */
export interface Matrix {
  rows: number;
  cols: number;
  values: (number | null)[];
  /** Rows and columns per value, which is then a mean: set for matrices that are too large to be passed whole. */
  perRow?: number;
  perCol?: number;
}

/** A matrix whose numbers were not saved: only its shape is known. */
export interface Unknown {
  rows: number;
  cols: number;
  values?: undefined;
}

export type MaybeMatrix = Matrix | Unknown;

/** One position. In the target: the input token (`after`) and the token to predict (`text`). */
export interface Token {
  text: string;
  after?: string;
}

export type Stack = 'encoder' | 'decoder';

/** Location of an attention; layers are counted from 0. */
export interface Place {
  stack: Stack;
  layer: number;
  kind: 'self' | 'cross';
}

/** One attention. Every list has one matrix per head; a view gets only the parts that it needs. */
export interface AttentionData {
  place: Place;
  heads: number;
  head: number | null;
  /** The highlighted query position. */
  token: number | null;
  queries: Token[];
  keys: Token[];
  scaled: boolean;
  biased: boolean;
  rotated: boolean;
  linearBias: boolean;
  causal: boolean;
  input?: Matrix;
  memory?: Matrix;
  q?: Matrix[];
  k?: Matrix[];
  v?: Matrix[];
  scores?: Matrix[];
  weights?: Matrix[];
  context?: Matrix[];
  share?: number[];
  output?: Matrix;
  wq?: MaybeMatrix[];
  wk?: MaybeMatrix[];
  wv?: MaybeMatrix[];
  wo?: MaybeMatrix;
}

/** The cross-attention K and V of one decoder layer, and the weights that compute them from the memory. */
export interface LayerKeysValues {
  layer: number;
  wk: MaybeMatrix;
  wv: MaybeMatrix;
  k: Matrix;
  v: Matrix;
  /** The name of the parameter that this weight is tied to; null if it is not tied. */
  kSharedWith: string | null;
  vSharedWith: string | null;
  /** Cosine with the same weight of the encoder's last layer; null if unknown. */
  kCosine: number | null;
  vCosine: number | null;
}

export interface CrossAttentionData {
  tokens: Token[];
  memory: Matrix;
  heads: number;
  encoderTop: { layer: number; wk: MaybeMatrix; wv: MaybeMatrix };
  layers: LayerKeysValues[];
}

export interface DecodingStepsData {
  layer: number;
  layers: number;
  heads: number;
  head: number;
  source: Token[];
  target: Token[];
  crossK: Matrix;
  /** Keys of the target, T × K; for a recurrent decoder its cell, T × D. */
  selfK: Matrix;
  recurrent: boolean;
}

export type Fate = 'start' | 'kept' | 'finished' | 'outranked' | 'displaced' | 'abandoned';

export interface BeamNode {
  parent: number;
  text: string;
  probability: number;
  score: number;
  fate: Fate;
}

export interface BeamData {
  size: number;
  lengthPenalty: number;
  nodes: BeamNode[];
  /** Nodes of the finished hypotheses, best first. */
  finished: number[];
  /** Last node of the hypothesis that was traced. */
  followed: number | null;
}

export interface SoftmaxData {
  position: number;
  positions: number;
  before: string[];
  written: string;
  writtenProbability: number;
  likeliest: { text: string; probability: number; written: boolean }[];
  rest: { count: number; probability: number };
  entropy: number;
}

/** Style of a figure. */
export interface Options {
  /** Millimetres: 86 for one column of a journal, 178 for a full page. */
  width?: number;
  dark?: boolean;
  /** Whether the description is also drawn under the figure, and not only in `<desc>`. */
  caption?: boolean;
}
