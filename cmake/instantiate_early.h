// The last line of the precompiled headers: instantiates their templates (cmake/instantiate_early.cc). A compiler
// without that plugin ignores the line.
#pragma ampd instantiate_early
