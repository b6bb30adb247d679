// The last of the precompiled headers, see cmake/instantiate_early.cc. Compilers without that plugin ignore this line.
#pragma ampd instantiate_early
