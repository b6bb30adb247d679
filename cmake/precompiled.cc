// The source for which the targets of cmake/AmpdPrecompiled.cmake compile their headers.
