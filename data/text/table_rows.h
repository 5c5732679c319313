// Rows of a table whose cells are separated by commas (quoted as RFC 4180 has it) or by tabs (never
// quoted), one by one; only empty lines are passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/record_text.h"

namespace ds {

// Confined to one thread.
class TableRows {
 public:
  // The text, which must outlive this, has no byte order mark taken off.
  explicit TableRows(const RecordText& text);

  // False at the end. line(): where the row begins, from 1. DataError for a quoted cell that is
  // not well formed.
  bool next(std::vector<std::string>& cells);
  int64_t line() const { return line_; }

 private:
  void read_quoted_row(std::vector<std::string>& cells);
  void read_quoted(std::string& cell);

  const RecordText& text_;
  std::string_view rest_;
  int64_t line_ = 0, lines_ = 0;
};

// DataError for a row with more or fewer cells than the table has columns.
void require_cells(const RecordText& text, const std::vector<std::string>& cells,
                   const std::vector<std::string>& columns, int64_t line);

}  // namespace ds
