#pragma once

#include <string>
#include <vector>

namespace ampd::server {

// What a check found about one thing.
struct CheckLine {
  enum Verdict { kOk, kNote, kWrong };
  Verdict verdict = kOk;
  std::string what;  // A file, or what all files have: "journal.db", "permissions".
  std::string text;  // What is there or, if it is wrong, what is wrong and what to do.
};

struct CheckReport {
  std::vector<CheckLine> lines;
  // Whether nothing is wrong; notes do not count.
  bool ok() const;
  // One line each: "OK     journal.db: ...".
  std::string ToText() const;
};

// Checks a data directory, without changing it: owners and permissions, the databases' pages and schemas, whether the
// journal can be replayed, and whether each artifact's content is there and undamaged. A server may run on the
// directory: the databases are read through transactions, as of a backup.
CheckReport CheckDataDirectory(const std::string& data_dir);

// Checks that a backup is complete and undamaged: first that its files are those of its manifest, then as
// CheckDataDirectory. Writes nothing to the backup.
CheckReport CheckBackup(const std::string& folder);

}  // namespace ampd::server
