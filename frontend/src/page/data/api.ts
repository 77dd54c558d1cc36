// Typed client of the server's routes. Every error has a one-sentence message that says what to do.
import { texts } from '../strings';
import type { Manifest, ModelInfo } from './manifest';
import { readSafetensors, type File } from './safetensors';
import type { Tensor } from './tensor';
import type { PronounRequest, PronounResponse } from './pronoun';

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export interface TraceRequest {
  text: string;
  target?: string;
  beam?: number;
  /** Which finished hypothesis of the search to trace; 0 is the best. */
  hypothesis?: number;
  /** Token ids that the translation is forced to begin with. */
  prefix?: number[];
}

/** Part of a tensor: rows and columns "3", "0:8", "8:"; `to` requests a summary of a weight: "64x64"; `half` "1" requests float16. */
export interface TensorSlice {
  rows?: string;
  cols?: string;
  to?: string;
  half?: string;
}

export interface WhatIfResponse {
  manifest: Manifest;
  changed_words: [string, string][];
  /** Log-probability that the changed model gives to each token of the original translation. */
  original_log_probabilities: (number | null)[];
  differences: (number | null)[];
  /** chrF before and after, if a reference was given. */
  chrf?: [number, number];
}

/** Importance of a head for a translation: `loss` in nats per token when it is removed. */
export interface HeadImportance {
  at: string;
  head: number;
  loss?: number;
}

export interface Api {
  model(): Promise<ModelInfo>;
  explore(request: TraceRequest): Promise<Manifest>;
  tensor(id: string, name: string, slice?: TensorSlice): Promise<Tensor>;
  weight(name: string, slice?: TensorSlice): Promise<Tensor>;
  whatIf(id: string, changes: unknown[], reference?: string, signal?: AbortSignal): Promise<WhatIfResponse>;
  heads(id: string): Promise<HeadImportance[]>;
  /** A file made from a trace: `figure/qkv.svg`, `story.html` or `explorer.html`; `options` are the route's. */
  file(id: string, name: string, options?: Record<string, string>): Promise<Blob>;
  /** The tensors of the search tree: see `readTree`. */
  tree(id: string): Promise<File>;
  pronoun(request: PronounRequest, signal: AbortSignal): Promise<PronounResponse>;
}

/** The part of `fetch` that is used here. */
export type Fetcher = (address: string, init?: RequestInit) => Promise<Response>;

export function httpApi(base = '', fetcher: Fetcher = (...args) => fetch(...args)): Api {
  let tracing: AbortController | null = null;

  async function request(path: string, init: RequestInit = {}): Promise<Response> {
    let response: Response;
    try {
      response = await fetcher(base + path, init);
    } catch (error) {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      throw new ApiError(texts.serverGone, 0);
    }
    if (!response.ok) throw new ApiError(await errorMessage(response), response.status);
    return response;
  }

  const post = (path: string, body: unknown, signal: AbortSignal | null = null) =>
    request(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });

  const file = async (path: string) => readSafetensors(await (await request(path)).arrayBuffer());

  return {
    model: async () => (await request('/api/model')).json() as Promise<ModelInfo>,
    async explore(body) {
      tracing?.abort(); // a new request replaces the one that is running
      tracing = new AbortController();
      return (await post('/api/explore', body, tracing.signal)).json() as Promise<Manifest>;
    },
    tensor: async (id, name, slice) =>
      (await file(`/api/explore/${id}/tensor/${name}${query(slice)}`)).tensor(name) as Tensor,
    weight: async (name, slice) =>
      (await file(`/api/weight/${name}${query(slice)}`)).tensor(`parameters.${name}`) as Tensor,
    async whatIf(id, changes, reference = '', signal) {
      const body = { changes, ...(reference === '' ? {} : { reference }) };
      return (await post(`/api/explore/${id}/what-if`, body, signal)).json() as Promise<WhatIfResponse>;
    },
    heads: async (id) =>
      ((await (await request(`/api/explore/${id}/heads`)).json()) as { heads: HeadImportance[] }).heads,
    file: async (id, name, options) =>
      (await request(`/api/explore/${id}/${name}?${new URLSearchParams(options)}`)).blob(),
    tree: (id) => file(`/api/explore/${id}/tree`),
    pronoun: async (body, signal) => (await post('/api/pronoun', body, signal)).json() as Promise<PronounResponse>,
  };
}

function query(slice: TensorSlice = {}): string {
  const parameters = new URLSearchParams({ ...slice }).toString();
  return parameters === '' ? '' : `?${parameters}`;
}

async function errorMessage(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error?: unknown };
    if (typeof error === 'string') return error;
  } catch {
    // not JSON, so not from our server: only the status is known
  }
  return texts.refused(response.status);
}
