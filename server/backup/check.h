#pragma once

#include <string>
#include <vector>

namespace ampd::server {

// The result of one check.
struct CheckLine {
  enum Verdict { kOk, kNote, kWrong };
  Verdict verdict = kOk;
  std::string what;  // A file such as "journal.db", or a property of all files such as "permissions".
  std::string text;  // What was found or, for a fault, what is wrong and what to do.
};

struct CheckReport {
  std::vector<CheckLine> lines;
  // Whether there are no faults; notes are not faults.
  bool ok() const;
  // Returns one line for each result: "OK     journal.db: ...".
  std::string ToText() const;
};

// Checks a data directory without changing it: owners and permissions, the databases' pages and schemas, whether the
// journal can be replayed, and whether each artifact's content exists and is undamaged. A server may run on the
// directory meanwhile, because the check reads the databases in transactions of its own.
CheckReport CheckDataDirectory(const std::string& data_dir);

// Checks that a backup is complete and undamaged. Compares its files with its manifest, and then checks them in the
// same way as CheckDataDirectory. Writes nothing to the backup.
CheckReport CheckBackup(const std::string& folder);

}  // namespace ampd::server
