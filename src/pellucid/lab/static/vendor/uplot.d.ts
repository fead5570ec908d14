declare class uPlot {
  constructor(options: any, data: any[], element: Element);
  setData(data: any[], resetScales?: boolean): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
export default uPlot;
