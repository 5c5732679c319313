// A file of records before it is read: JSON lines, one object a line, or a table whose first line
// names its columns.
#pragma once

#include <string>
#include <string_view>

namespace ds {

enum class RecordLayout { kJsonLines, kCommas, kTabs };
// The layout that the name's ending without .gz and the like says: JSON lines, .csv or .tsv.
// Unsupported for others.
RecordLayout record_layout(const std::string& path);

struct RecordText {
  std::string_view content;  // of a whole file
  std::string path;          // for messages
  RecordLayout layout = RecordLayout::kJsonLines;
};

}  // namespace ds
