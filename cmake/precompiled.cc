// The source that the targets of cmake/AmpdPrecompiled.cmake compile only to make their precompiled headers.
