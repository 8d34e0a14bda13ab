// Writes down what a run makes ready: the file that TEGULA_RECORD names gets a line for each specialisation.
#pragma once

#include <string>
#include <vector>

#include "dsl/kernel_source.h"
#include "runtime/package/package.h"

namespace tegula::dsl {

/// Whether TEGULA_RECORD names a file, and files may still be opened.
bool is_recording();

/// Adds the line unless the file has it. Text that lies in no file is written beside the list, into the folder
/// LIST.texts. `choice`: what the options were chosen for; null: nothing chose them. A file that cannot be written to
/// is a warning.
void record(const KernelSource& source, const std::vector<ArgType>& types, const LaunchOptions& options,
            const PackagedChoice* choice);
/// Instead of a line that cannot be written: a comment that says why.
void record_missing(const KernelSource& source, const std::string& why);

/// The line for messages.
std::string line_of(const KernelSource& source, const std::vector<ArgType>& types, const LaunchOptions& options);

}  // namespace tegula::dsl
