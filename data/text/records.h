// Records of named texts (pure): JSON lines, one object a line, or a table whose first line names
// its columns, separated by commas (quoted as RFC 4180 has it) or by tabs (never quoted). Every
// line counts or is an error with its number; only empty lines are passed over.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/record_text.h"

namespace ds {

// A field or column that is wanted. Of JSON lines it is text or a whole number, which becomes its
// digits, or, where it may be a list, any number or a list, which stays JSON.
struct RecordField {
  std::string name;
  bool may_be_list = false;
};
// Calls `on_record` with what each record has in these fields, in order, and the number of its
// first line from 1. DataError "path:line: ..." for a record without one of them, for other values,
// and for what is no such text.
void for_each_record(
    const RecordText& text, const std::vector<RecordField>& fields,
    const std::function<void(std::span<const std::string> values, int64_t line)>& on_record);

}  // namespace ds
