// A notebook's messages in place of HTTP: the same requests and answers, in pieces that a notebook can carry.
import { texts } from '../strings';
import { ApiError, type Fetcher } from './api';

/** What of a widget's model is needed here. */
export interface Messages {
  send(content: unknown): void;
  on(event: 'msg:custom', heard: (content: unknown, buffers: DataView[]) => void): void;
  off(event: 'msg:custom', heard: (content: unknown, buffers: DataView[]) => void): void;
}

interface Piece {
  id: string;
  /** Which piece of how many. */
  piece: number;
  pieces: number;
  status: number;
  headers: Record<string, string>;
}

interface Waiting {
  parts: Uint8Array<ArrayBuffer>[];
  answer: (response: Response) => void;
  fail: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

const PATIENCE = 60_000; // milliseconds without a word before a kernel is taken for gone

/** `fetch` by messages; several pages may share one line, so each counts its requests under a name of its own. */
export function messageFetch(line: Messages): { fetch: Fetcher; close: () => void } {
  const own = Math.random().toString(36).slice(2);
  const waiting = new Map<string, Waiting>();
  let count = 0;

  function heard(content: unknown, buffers: DataView[]): void {
    const piece = content as Piece;
    const asked = waiting.get(piece.id);
    if (asked === undefined) return;
    const { buffer, byteOffset, byteLength } = buffers[0] ?? new DataView(new ArrayBuffer(0));
    asked.parts[piece.piece] = new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
    if (asked.parts.filter(Boolean).length < piece.pieces) return;
    leave(piece.id);
    asked.answer(new Response(new Blob(asked.parts), { status: piece.status, headers: piece.headers }));
  }

  function leave(id: string): void {
    clearTimeout(waiting.get(id)?.timer);
    waiting.delete(id);
  }

  line.on('msg:custom', heard);
  return {
    fetch: (address, init) =>
      new Promise((answer, fail) => {
        const id = `${own}-${++count}`;
        const giveUp = (error: Error) => (leave(id), fail(error));
        const timer = setTimeout(() => giveUp(new ApiError(texts.kernelGone, 0)), PATIENCE);
        waiting.set(id, { parts: [], answer, fail, timer });
        init?.signal?.addEventListener('abort', () => giveUp(new DOMException('', 'AbortError')));
        line.send({ id, method: init?.method ?? 'GET', path: address, body: init?.body ?? null });
      }),
    close: () => line.off('msg:custom', heard),
  };
}
