#include "data/content.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "data/cifar_records.h"
#include "data/token_width.h"

namespace ampd::data {
namespace {

using Format = v1::DatasetFile::Format;

constexpr size_t kBeginBytes = size_t{1} << 16;
constexpr int64_t kMostRecords = 10'000;  // Maximum number of CIFAR records whose labels are checked.

// Decides whether the content may be a CIFAR file: reads it as CIFAR records and counts the labels that are out of
// range. Because a CIFAR file may have some wrong labels, one wrong label in ten is accepted, or half of them in a file
// of at most 20 labels.
class CifarLabelCounts {
 public:
  // Counts the labels in `bytes`, a part of the content that begins at `offset`.
  void Add(int64_t offset, std::string_view bytes) {
    Count(offset, bytes, CifarLabels::kTen, ten_);
    Count(offset, bytes, CifarLabels::kHundredFine, hundred_);
  }
  bool FitTen(int64_t content_bytes) const { return Fits(CifarLabels::kTen, content_bytes, ten_); }
  bool FitHundred(int64_t content_bytes) const { return Fits(CifarLabels::kHundredFine, content_bytes, hundred_); }

 private:
  struct Labels {
    int64_t num_seen = 0;
    int64_t num_wrong = 0;
  };

  static void Count(int64_t offset, std::string_view bytes, CifarLabels kind, Labels& labels) {
    const CifarRecord record = CifarRecordOf(kind);
    for (size_t place = 0; place < record.num_classes.size(); ++place) {
      const int64_t first = (static_cast<int64_t>(place) - offset % record.num_bytes() + record.num_bytes());
      for (int64_t at = first % record.num_bytes(); at < static_cast<int64_t>(bytes.size()); at += record.num_bytes()) {
        ++labels.num_seen;
        labels.num_wrong += static_cast<uint8_t>(bytes[static_cast<size_t>(at)]) >= record.num_classes[place] ? 1 : 0;
      }
    }
  }
  static bool Fits(CifarLabels kind, int64_t content_bytes, const Labels& labels) {
    constexpr int64_t kFew = 20;
    return content_bytes > 0 && content_bytes % CifarRecordOf(kind).num_bytes() == 0 &&
           labels.num_wrong * (labels.num_seen <= kFew ? 2 : 10) <= labels.num_seen;
  }

  Labels ten_;
  Labels hundred_;
};

// The first character of the content that JSON does not treat as a blank; 0 if there is none.
char FirstThatIsNoBlank(std::string_view content) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? '\0' : content[first];
}

// Whether nine of ten bytes are printable ASCII characters or blanks. True for JSON lines with some wrong bytes. False
// for tokens: most of their upper bytes are 0 or other bytes that are no text.
bool IsMostlyText(std::string_view content) {
  const auto num_text = std::count_if(content.begin(), content.end(), [](char byte) {
    return (byte >= ' ' && byte <= '~') || byte == '\t' || byte == '\r' || byte == '\n';
  });
  return static_cast<size_t>(num_text) * 10 >= content.size() * 9;
}

// Reads one file and determines the format of its content, for LookAt.
class Look {
 public:
  explicit Look(const DataFile& file) : file_(file) {}

  absl::StatusOr<FileContent> Decide() {
    AMPD_ASSIGN_OR_RETURN(opened_, OpenDataFile(file_));
    struct stat status = {};
    if (fstat(opened_.get(), &status) != 0) {
      return FileError(file_.name, errno);
    }
    content_.size_bytes = status.st_size;
    AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file_));
    content_.gzip = stream.is_gzip();
    if (content_.gzip) {
      AMPD_RETURN_IF_ERROR(ReadAll(stream));
    }
    AMPD_ASSIGN_OR_RETURN(const std::string raw, ReadBegin(0));
    if (content_.content_bytes == 0 && !content_.damage.ok() &&
        ContentOf(raw, content_.size_bytes).kind != ContentKind::kGzip) {
      content_.gzip = false;  // Not gzip: its two magic bytes can be an ordinary number.
      content_.damage = absl::OkStatus();
    }
    if (!content_.gzip) {
      AMPD_RETURN_IF_ERROR(ReadSome(raw));
    }
    AMPD_RETURN_IF_ERROR(Name());
    return std::move(content_);
  }

 private:
  // Reads a whole compressed file. The first reads are of one byte each, so that a damaged file of a few bytes still
  // yields the beginning of its content.
  absl::Status ReadAll(ByteStream& stream) {
    std::string chunk(1, '\0');
    char late_opening = '\0';
    absl::StatusOr<size_t> count = 1;
    while (count.ok() && *count > 0 && content_.content_bytes <= kMaxDatasetBytes) {
      count = stream.Read(reinterpret_cast<uint8_t*>(chunk.data()), chunk.size());
      const std::string_view read = std::string_view(chunk).substr(0, count.ok() ? *count : 0);
      content_.begin.append(read.substr(0, kBeginBytes - content_.begin.size()));
      labels_.Add(content_.content_bytes, read);
      content_.content_bytes += static_cast<int64_t>(read.size());
      if (late_opening == '\0' && content_.begin.size() == kBeginBytes) {
        late_opening = FirstThatIsNoBlank(read);
      }
      chunk.resize(content_.content_bytes < 16 ? 1 : kBeginBytes);
    }
    Open(content_.begin);
    opening_ = opening_ == '\0' ? late_opening : opening_;
    content_.damage = count.status();
    return absl::OkStatus();
  }

  // Reads kBeginBytes, or what is left, of an uncompressed file from `offset` on.
  absl::StatusOr<std::string> ReadBegin(int64_t offset) const {
    const int64_t size = std::min(static_cast<int64_t>(kBeginBytes), content_.size_bytes - offset);
    std::string bytes(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
    AMPD_RETURN_IF_ERROR(ReadPlain(offset, static_cast<int64_t>(bytes.size()), bytes.data()));
    return bytes;
  }

  absl::Status ReadSome(const std::string& begin) {
    content_.content_bytes = content_.size_bytes;
    content_.begin = begin;
    Open(content_.begin);
    for (int64_t done = static_cast<int64_t>(begin.size());
         opening_ == '\0' && done < std::min(content_.size_bytes, kMaxDatasetBytes);) {
      AMPD_ASSIGN_OR_RETURN(const std::string next, ReadBegin(done));
      opening_ = FirstThatIsNoBlank(next);
      done += static_cast<int64_t>(next.size());
    }
    for (const CifarLabels kind : {CifarLabels::kTen, CifarLabels::kHundredFine}) {
      AMPD_RETURN_IF_ERROR(ReadLabels(CifarRecordOf(kind).num_bytes()));
    }
    return absl::OkStatus();
  }

  // Sets `opening_` to the first character of the content that is not blank, after a UTF-8 byte order mark if there is
  // one.
  void Open(std::string_view begin) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    opening_ = FirstThatIsNoBlank(begin.starts_with(kMark) ? begin.substr(kMark.size()) : begin);
  }

  // Counts the labels of an uncompressed file, read as CIFAR records of this size.
  absl::Status ReadLabels(int64_t record_bytes) {
    if (content_.size_bytes % record_bytes != 0) {
      return absl::OkStatus();
    }
    const int64_t count = std::min(content_.size_bytes / record_bytes, kMostRecords);
    for (int64_t record = 0; record < count; ++record) {
      std::string label(static_cast<size_t>(record_bytes - kCifarPixelBytes), '\0');
      AMPD_RETURN_IF_ERROR(ReadPlain(record * record_bytes, static_cast<int64_t>(label.size()), label.data()));
      labels_.Add(record * record_bytes, label);
    }
    return absl::OkStatus();
  }

  absl::Status ReadPlain(int64_t offset, int64_t size, void* out) const {
    for (int64_t done = 0; done < size;) {
      const ssize_t count =
          pread(opened_.get(), static_cast<char*>(out) + done, static_cast<size_t>(size - done), offset + done);
      if (count < 0 && errno != EINTR) {
        return FileError(file_.name, errno);
      }
      if (count == 0) {
        return DataError(file_.name, absl::StrCat("the file ends at byte ", offset + done));
      }
      done += std::max<ssize_t>(count, 0);
    }
    return absl::OkStatus();
  }

  bool IsCifar() const { return labels_.FitTen(content_.content_bytes) || labels_.FitHundred(content_.content_bytes); }

  absl::Status Found(Format format, std::string why = "") {
    content_.format = format;
    content_.why = std::move(why);
    return absl::OkStatus();
  }
  absl::Status NotFound(std::string why) { return Found(v1::DatasetFile::FORMAT_UNSPECIFIED, std::move(why)); }

  // Sets the format. Formats with a signature are tried first, because CIFAR files are recognized only by size and
  // labels, and tokens only by their numbers.
  absl::Status Name() {
    const Content known = ContentOf(content_.begin, content_.content_bytes);
    const bool counts = known.is_certain || !IsCifar();
    content_.is_certain = known.is_certain;
    switch (known.kind) {
      case ContentKind::kNpy:
        return Found(v1::DatasetFile::NPY);
      case ContentKind::kZip:
        return Found(v1::DatasetFile::NPZ);
      case ContentKind::kIdx:
        return counts ? Found(v1::DatasetFile::IDX) : NameCifar();
      case ContentKind::kLlmC:
        return content_.gzip ? NotFound("llm.c's token file, which is read uncompressed")
                             : Found(v1::DatasetFile::LLM_C_TOKENS);
      case ContentKind::kSafetensors:
        return !counts         ? NameCifar()
               : content_.gzip ? NotFound("a safetensors file, which is read uncompressed")
                               : Found(v1::DatasetFile::SAFETENSORS);
      case ContentKind::kUnknown:
        break;
      default:
        return NameOther(known, counts);
    }
    if (opening_ == '{' && !IsCifar() && IsMostlyText(content_.begin)) {
      return Found(v1::DatasetFile::JSONL);  // A damaged file: the reader of JSON lines names the place.
    }
    return IsCifar() ? NameCifar() : NameTokens();
  }

  absl::Status NameOther(const Content& known, bool counts) {
    if (opening_ == '{' && (known.kind == ContentKind::kJson || known.kind == ContentKind::kText)) {
      return Found(v1::DatasetFile::JSONL);
    }
    if (!counts) {
      return NameCifar();
    }
    return NotFound(absl::StrCat(known.is_certain ? "" : "it begins as if it were ", NameOf(known.kind),
                                 opening_ == '[' ? ", a list; jsonl reads an object a line" : ""));
  }

  absl::Status NameCifar() {
    const bool is_ten = labels_.FitTen(content_.content_bytes);
    if (is_ten && labels_.FitHundred(content_.content_bytes)) {
      return NotFound("size and labels may be those of CIFAR-10 and of CIFAR-100");
    }
    return Found(is_ten ? v1::DatasetFile::CIFAR10 : v1::DatasetFile::CIFAR100);
  }

  absl::Status NameTokens() {
    if (content_.gzip) {
      return NotFound("compressed by gzip, and inside " + NameOf(ContentKind::kUnknown));
    }
    AMPD_ASSIGN_OR_RETURN(const TokenWidth width,
                          WidthOfTokens(content_.size_bytes, [this](int64_t offset, int64_t size, void* out) {
                            return ReadPlain(offset, size, out);
                          }));
    if (width.token_bytes != 0) {
      return Found(width.token_bytes == 2 ? v1::DatasetFile::UINT16_TOKENS : v1::DatasetFile::UINT32_TOKENS, width.why);
    }
    // The content is in none of the formats. If the file has the size of whole CIFAR records, it is nevertheless called
    // a CIFAR file: reading it as one gives an error that names the wrong labels.
    const auto has_size_of = [this](CifarLabels kind) {
      return content_.size_bytes % CifarRecordOf(kind).num_bytes() == 0;
    };
    return has_size_of(CifarLabels::kTen)           ? Found(v1::DatasetFile::CIFAR10)
           : has_size_of(CifarLabels::kHundredFine) ? Found(v1::DatasetFile::CIFAR100)
                                                    : NotFound(width.why);
  }

  const DataFile& file_;
  UniqueFd opened_;
  FileContent content_;
  CifarLabelCounts labels_;
  char opening_ = '\0';
};

}  // namespace

absl::StatusOr<FileContent> LookAt(const DataFile& file) { return Look(file).Decide(); }

absl::Status RefuseOtherFormats(std::string_view begin, int64_t content_bytes, const std::string& name,
                                const std::string& expected) {
  const Content known = ContentOf(begin, content_bytes);
  const bool is_other = known.is_certain && known.kind != ContentKind::kUnknown && known.kind != ContentKind::kEmpty;
  return is_other ? DataError(name, absl::StrCat("it is ", NameOf(known.kind), ", not ", expected)) : absl::OkStatus();
}

}  // namespace ampd::data
