#include "base/grpc/grpc_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace ampd {
namespace {

std::string Place(std::string_view file, int line) {
  const size_t slash = file.rfind('/');
  return absl::StrCat(std::string(slash == std::string_view::npos ? file : file.substr(slash + 1)), ":", line);
}

void LogGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::err
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  Log(level, args->message, {{"source", "grpc"}, {"place", Place(args->file, args->line)}});
}

void LogProtobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  const auto ours = level == google::protobuf::LOGLEVEL_INFO      ? spdlog::level::info
                    : level == google::protobuf::LOGLEVEL_WARNING ? spdlog::level::warn
                                                                  : spdlog::level::err;
  Log(ours, message, {{"source", "protobuf"}, {"place", Place(file, line)}});
}

}  // namespace

void LogLinesOfGrpcAndProtobuf() {
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
}

}  // namespace ampd
