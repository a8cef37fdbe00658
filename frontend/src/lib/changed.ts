/** Whether something is another than it was: values of the API, which come anew with every answer. */

export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
