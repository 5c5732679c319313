// Reads a golden command of the form "verb key=value key=1,2,3": for the answer functions of
// run_golden.
#pragma once

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ds::testing {

struct Arguments {
  std::string verb;
  std::map<std::string, std::string> values;

  explicit Arguments(const std::string& command) {
    std::istringstream in(command);
    in >> verb;
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) throw std::invalid_argument("not key=value: " + word);
      values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  bool has(const std::string& key) const { return values.contains(key); }
  std::string text(const std::string& key) const {
    if (!has(key)) throw std::invalid_argument("missing " + key);
    return values.at(key);
  }
  double number(const std::string& key) const { return std::stod(text(key)); }
  double number(const std::string& key, double absent) const {
    return has(key) ? number(key) : absent;
  }
  int64_t integer(const std::string& key) const { return std::stoll(text(key)); }
  int64_t integer(const std::string& key, int64_t absent) const {
    return has(key) ? integer(key) : absent;
  }
  // "1,2,5..8" (a range of whole numbers); T is int64_t, float or double.
  template <class T>
  std::vector<T> list(const std::string& key) const {
    std::vector<T> out;
    std::istringstream in(has(key) ? text(key) : "");
    for (std::string word; std::getline(in, word, ',');) {
      const size_t dots = word.find("..");
      if (dots == std::string::npos) {
        out.push_back(static_cast<T>(std::stod(word)));
        continue;
      }
      const int64_t last = std::stoll(word.substr(dots + 2));
      for (int64_t i = std::stoll(word.substr(0, dots)); i <= last; ++i) {
        out.push_back(static_cast<T>(i));
      }
    }
    return out;
  }
};

}  // namespace ds::testing
