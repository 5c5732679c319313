// A trace for people who look rather than read (pure): what the ranks recorded, each line an event
// already, as the one JSON file that Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

struct TraceFile {
  std::string json;
  int64_t ranks = 0;
  int64_t events = 0;
  int64_t steps = 0;       // of the rank that has most
  int64_t first_step = 0;  // likewise
  int64_t left_out = 0;    // events that there was no room for
};

// Makes the file from the lines that control/run_trace.h collects. Returns nothing if `lines` are
// those of another trace, or not there yet. Throws DataError if they are no trace.
std::optional<TraceFile> trace_file(std::string_view lines, int64_t number);

}  // namespace ds
