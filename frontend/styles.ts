// How classes of components are told apart: by four letters, because they stand in the built files thousands of times.
export const cssHash = ({ hash, filename }: { hash: (text: string) => string; filename: string }): string =>
  `g${hash(filename.replace(/^.*\/src\//, '')).slice(0, 4)}`;
