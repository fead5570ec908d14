export function cloneElement(node: any, props?: any): any;
export function h(type: any, props?: any, ...children: any[]): any;
export function render(node: any, parent: Element): void;
