// Lines of files of records, and the JSON objects on them (pure); what is wrong is refused with the
// file and the line.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ds {

// DataError "path:line: defect".
[[noreturn]] void refuse_line(const std::string& path, int64_t line, const std::string& defect);

// DataError for a known format that is none, for what is no UTF-8, and for NUL bytes.
void require_record_text(std::string_view content, const std::string& path);

// Text up to the next line feed, which is passed over, without a carriage return at its end.
std::string_view next_line(std::string_view& rest);

// DataError for a line that is no JSON object.
rapidjson::Document object_on_line(std::string_view content, const std::string& path, int64_t line);

// Calls `on_object` with the object on each line that is not empty, in order, and the line's number
// from 1. DataError as object_on_line().
void for_each_object_line(
    std::string_view content, const std::string& path,
    const std::function<void(const rapidjson::Document& object, int64_t line)>& on_object);

// The one value of this name. DataError if there is none, or more than one; `section` of the
// configuration names the fields.
const rapidjson::Value& field_on_line(const rapidjson::Value& object, const std::string& name,
                                      std::string_view section, const std::string& path,
                                      int64_t line);

// A text as it is, and a whole number as its digits. DataError for other values; `what` they are
// begins the message: the field "label".
std::string word_of(const rapidjson::Value& value, const std::string& what, const std::string& path,
                    int64_t line);

// The same, and any number as its digits, and a list as its text in JSON.
std::string word_or_list_of(const rapidjson::Value& value, const std::string& what,
                            const std::string& path, int64_t line);

}  // namespace ds
