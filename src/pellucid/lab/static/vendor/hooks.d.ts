export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void) | undefined, depends?: any[]): void;
export function useLayoutEffect(effect: () => void | (() => void) | undefined, depends?: any[]): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, depends: any[]): T;
