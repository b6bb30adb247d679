// The last of the precompiled headers: see cmake/instantiate_early.cc, without which compilers pass over this line.
#pragma ampd instantiate_early
