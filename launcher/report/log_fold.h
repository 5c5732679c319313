// Logs of several ranks as one text (pure): the lines in order of their time, and a line that
// several ranks say is printed once, after all of them: "[0-2,5] loaded".
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ds {

// "0", "0-3", "0,2,5-7"; of ascending numbers.
std::string rank_ranges(const std::vector<int>& ranks);

// The lines of each rank, oldest first. A line may begin with "HH:MM:SS.mmm "; lines without a time
// belong to the one before them. Two lines are equal if the rest is; the k-th of one rank only ever
// meets the k-th of another. The time shown is the first one. No newlines in, one after each line
// out.
std::string fold_logs(const std::map<int, std::vector<std::string>>& lines);
// The same as lines of JSON: {"ranks": [0, 1], "time": "12:00:00.000", "text": "loaded"}; a line
// without a time has null there.
std::string fold_logs_as_json(const std::map<int, std::vector<std::string>>& lines);

}  // namespace ds
