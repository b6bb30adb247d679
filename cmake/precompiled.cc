// Gives the targets of cmake/AmpdPrecompiled.cmake a source to compile their headers for.
