// The server's routes, typed. Every failure is one sentence with what to do.
import { texts } from '../strings';
import { numbers } from './bytes';
import type { Manifest, ModelInfo } from './manifest';
import type { Tensor } from './tensor';
import { received, type SentTree, type Tree } from './tree';
import type { AskWho, WhoFound } from './who';

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export interface AskTrace {
  text: string;
  target?: string;
  beam?: number;
  /** Which of those that the search ended is followed, the best first. */
  hypothesis?: number;
  /** Ids that the translation is made to begin with. */
  prefix?: number[];
}

/** Part of a tensor: "3", "0:8", "8:"; `to` makes a weight small: "64x64"; `half` is "1" where float16 will do. */
export interface Cut {
  rows?: string;
  cols?: string;
  to?: string;
  half?: string;
}

export interface WhatIf {
  manifest: Manifest;
  changed_words: [string, string][];
  /** What the changed model gives to each token of the translation before. */
  kept: (number | null)[];
  differences: (number | null)[];
  /** Before and after, against a reference. */
  chrf?: [number, number];
}

/** What a head is worth to a translation: nats a token that are lost without it. */
export interface HeadWorth {
  at: string;
  head: number;
  loss?: number;
}

export interface Api {
  model(): Promise<ModelInfo>;
  explore(asked: AskTrace): Promise<Manifest>;
  tensor(id: string, name: string, cut?: Cut): Promise<Tensor>;
  weight(name: string, cut?: Cut): Promise<Tensor>;
  whatIf(id: string, changes: unknown[], reference?: string, signal?: AbortSignal): Promise<WhatIf>;
  heads(id: string): Promise<HeadWorth[]>;
  /** What is taken along of a trace: `figure/qkv.svg`, `story.html` or `explorer.html`, told what the route takes. */
  file(id: string, name: string, told?: Record<string, string>): Promise<Blob>;
  tree(id: string): Promise<Tree>;
  who(wanted: AskWho, signal: AbortSignal): Promise<WhoFound>;
}

/** `fetch`, as far as it is needed here. */
export type Fetcher = (address: string, init?: RequestInit) => Promise<Response>;

export function httpApi(base = '', fetcher: Fetcher = (...given) => fetch(...given)): Api {
  let tracing: AbortController | null = null;

  async function asked(path: string, init: RequestInit = {}): Promise<Response> {
    let answer: Response;
    try {
      answer = await fetcher(base + path, init);
    } catch (error) {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      throw new ApiError(texts.serverGone, 0);
    }
    if (!answer.ok) throw new ApiError(await sentence(answer), answer.status);
    return answer;
  }

  const posted = (path: string, body: unknown, signal: AbortSignal | null = null) =>
    asked(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });

  return {
    model: async () => (await asked('/api/model')).json() as Promise<ModelInfo>,
    async explore(wanted) {
      tracing?.abort(); // who asks anew does not wait for the old answer
      tracing = new AbortController();
      return (await posted('/api/explore', wanted, tracing.signal)).json() as Promise<Manifest>;
    },
    tensor: async (id, name, cut) => tensorOf(await asked(`/api/explore/${id}/tensor/${name}${query(cut)}`)),
    weight: async (name, cut) => tensorOf(await asked(`/api/weight/${name}${query(cut)}`)),
    async whatIf(id, changes, reference = '', signal) {
      const body = { changes, ...(reference === '' ? {} : { reference }) };
      return (await posted(`/api/explore/${id}/what-if`, body, signal)).json() as Promise<WhatIf>;
    },
    heads: async (id) => ((await (await asked(`/api/explore/${id}/heads`)).json()) as { heads: HeadWorth[] }).heads,
    file: async (id, name, told) => (await asked(`/api/explore/${id}/${name}?${new URLSearchParams(told)}`)).blob(),
    tree: async (id) => received((await (await asked(`/api/explore/${id}/tree`)).json()) as SentTree),
    who: async (wanted, signal) => (await posted('/api/who', wanted, signal)).json() as Promise<WhoFound>,
  };
}

function query(cut: Cut = {}): string {
  const written = new URLSearchParams({ ...cut }).toString();
  return written === '' ? '' : `?${written}`;
}

async function sentence(answer: Response): Promise<string> {
  try {
    const { error } = (await answer.json()) as { error?: unknown };
    if (typeof error === 'string') return error;
  } catch {
    // an answer that is no JSON is not ours; its number is all that can be said
  }
  return texts.refused(answer.status);
}

async function tensorOf(answer: Response): Promise<Tensor> {
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const shape = answer.headers.get('x-shape') ?? '';
  return {
    values: numbers(bytes, answer.headers.get('x-dtype') ?? 'float32'),
    shape: shape === '' ? [] : shape.split(',').map(Number),
    axes: (answer.headers.get('x-axes') ?? '').split(' ').filter(Boolean),
  };
}
