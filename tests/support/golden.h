// Readable golden files for pure cores, in the manner of etcd's datadriven tests. A file is a list
// of blocks, each
//     command, one or more lines
//     ----
//     expected output, up to a blank line or the end of the file
// and lines before a block that start with '#' are comments. With DS_REWRITE_GOLDEN=1 in the
// environment the expected parts are rewritten with what came out, to be reviewed in the diff.
#pragma once

#include <functional>
#include <string>

namespace ds::testing {

// The root of the checkout that the tests were built from, or of the one that the environment's
// DS_SOURCE_DIR names, for programs that were carried to another machine.
std::string source_directory();

// `name` is relative to tests/golden. The answer's blank lines come back as "." lines, so that a
// block can hold them. Fails the running Catch2 test with the first differing line.
void run_golden(const std::string& name,
                const std::function<std::string(const std::string& command)>& answer);

}  // namespace ds::testing
