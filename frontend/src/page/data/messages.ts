// `fetch` over a notebook's widget messages: HTTP requests and responses, split into pieces of limited size.
import { texts } from '../strings';
import { ApiError, type Fetcher } from './api';

/** The part of an anywidget model that is used here. */
export interface Messages {
  send(content: unknown): void;
  on(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
}

interface Piece {
  id: string;
  /** Index of this piece, and the number of pieces. */
  piece: number;
  pieces: number;
  status: number;
  headers: Record<string, string>;
}

interface PendingRequest {
  parts: Uint8Array<ArrayBuffer>[];
  resolve: (response: Response) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

const TIMEOUT_MS = 60_000; // without a complete response, the kernel is taken to be gone

/** Several explorers may share one channel, so each prefixes its request ids. */
export function messageFetch(channel: Messages): { fetch: Fetcher; close: () => void } {
  const prefix = Math.random().toString(36).slice(2);
  const pending = new Map<string, PendingRequest>();
  let count = 0;

  function receive(content: unknown, buffers: DataView[]): void {
    const piece = content as Piece;
    const request = pending.get(piece.id);
    if (request === undefined) return;
    const { buffer, byteOffset, byteLength } = buffers[0] ?? new DataView(new ArrayBuffer(0));
    request.parts[piece.piece] = new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
    if (request.parts.filter(Boolean).length < piece.pieces) return;
    forget(piece.id);
    request.resolve(new Response(new Blob(request.parts), { status: piece.status, headers: piece.headers }));
  }

  function forget(id: string): void {
    clearTimeout(pending.get(id)?.timer);
    pending.delete(id);
  }

  channel.on('msg:custom', receive);
  return {
    fetch: (address, init) =>
      new Promise((resolve, reject) => {
        const id = `${prefix}-${++count}`;
        const abort = (error: Error) => (forget(id), reject(error));
        const timer = setTimeout(() => abort(new ApiError(texts.kernelGone, 0)), TIMEOUT_MS);
        pending.set(id, { parts: [], resolve, reject, timer });
        init?.signal?.addEventListener('abort', () => abort(new DOMException('', 'AbortError')));
        channel.send({ id, method: init?.method ?? 'GET', path: address, body: init?.body ?? null });
      }),
    close: () => channel.off('msg:custom', receive),
  };
}
