#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// If `expression`, an absl::Status, is an error, returns it from the enclosing function.
#define AMPD_RETURN_IF_ERROR(expression)                              \
  do {                                                                \
    if (absl::Status ampd_status = (expression); !ampd_status.ok()) { \
      return ampd_status;                                             \
    }                                                                 \
  } while (false)

#define AMPD_CONCATENATE_INNER(a, b) a##b
#define AMPD_CONCATENATE(a, b) AMPD_CONCATENATE_INNER(a, b)

#define AMPD_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) {                                           \
    return std::move(result).status();                          \
  }                                                             \
  target = *std::move(result)

// Assigns the value of `expression`, an absl::StatusOr, to `target`, which may declare a variable. If it is an error,
// returns its status from the enclosing function. Expands to several statements: use it inside braces.
#define AMPD_ASSIGN_OR_RETURN(target, expression) \
  AMPD_ASSIGN_OR_RETURN_INNER(AMPD_CONCATENATE(ampd_result_, __LINE__), target, expression)
