// Records as JSON objects (pure): JSON lines, one list of objects, or the rows of a table, whose
// cells are texts by the names of their columns.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "data/text/record_text.h"

namespace ds {

// Calls `on_object` with each record, in order, and the number of its first line from 1; those of a
// list are counted instead. DataError "path:line: ..." for what is no such text, and for a table
// two columns of which have one name.
void for_each_object(
    const RecordText& text,
    const std::function<void(const rapidjson::Value& object, int64_t line)>& on_object);

// The data.format by whose usual fields a record is an example; empty: it is none that is known.
std::string_view example_format(const rapidjson::Value& object);

}  // namespace ds
