export function signal<T = any>(value: T): { value: any };
export function computed<T>(make: () => T): { readonly value: T };
export function effect(run: () => void): () => void;
export function batch(run: () => void): void;
