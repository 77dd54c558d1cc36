// How classes of components are told apart: by a few letters, because they stand in the built files thousands of times.
const taken = new Map<string, string>();

export function cssHash({ hash, filename }: { hash: (text: string) => string; filename: string }): string {
  const file = filename.replace(/^.*\/src\//, '');
  const short = `g${hash(file).slice(0, 3)}`;
  if ((taken.get(short) ?? file) !== file)
    throw new Error(`${file} and ${taken.get(short)} would have the same styles: take one letter more.`);
  taken.set(short, file);
  return short;
}
