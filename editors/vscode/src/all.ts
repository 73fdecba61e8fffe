// Everything, for the tests.

export * as binary from "./binary";
export * as config from "./config";
export * as events from "./events";
export * as extension from "./extension";
export * as lm from "./lm";
export * as migration from "./migration";
export * as model from "./model";
export * as server from "./server";
export * as site from "./site";
export * as views from "./views";
