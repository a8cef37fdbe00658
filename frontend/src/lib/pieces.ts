/** Lines of what is not always known. */

/** What is known without a break: a time and a value at each point. */
export function piecesOf(times: number[], values: (number | null)[]): [number, number][][] {
  const pieces: [number, number][][] = [];
  let open = false;
  times.forEach((at, index) => {
    const value = values[index] ?? null;
    if (value === null) {
      open = false;
      return;
    }
    if (!open) pieces.push([]);
    open = true;
    pieces.at(-1)?.push([at, value]);
  });
  return pieces;
}
