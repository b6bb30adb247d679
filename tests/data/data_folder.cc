#include "tests/data/data_folder.h"

#include <zlib.h>

#include <cstdlib>
#include <fstream>

namespace ampd::data {

std::string Gzip(const std::string& content) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(content.size() + 128, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

DataFolderTest::DataFolderTest() {
  std::string pattern = testing::TempDir() + "/data-XXXXXX";
  root_ = mkdtemp(pattern.data());
}

void DataFolderTest::Write(const std::string& name, const std::string& content) {
  std::ofstream(root_ / name, std::ios::binary) << content;
}

}  // namespace ampd::data
