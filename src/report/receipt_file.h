// receipt.jsonl: every so many steps, a line that proves where a run was: the step, its loss and a hash of all weights; with
// --trace also a hash of every parameter. Two runs are the same where their receipts are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/batch.h"

namespace cohort {

class StepLines;

struct Receipt {
  Step step = 0;  // done
  double loss = 0;
  std::string weights;
  std::vector<std::pair<std::string, std::string>>
      parameters{};  // by name, in the network's order; empty without --trace
};

// The one writer; see step_lines.h.
class ReceiptFile {
 public:
  ReceiptFile(const std::filesystem::path& path, Step resumeStep);
  ~ReceiptFile();

  void add(const Receipt& receipt);
  void flush();

 private:
  std::unique_ptr<StepLines> lines_;
};

// In the file's order. IoError where it cannot be read.
std::vector<Receipt> readReceipts(const std::filesystem::path& path);

// What comparing the receipts of the same steps comes to.
struct Comparison {
  std::vector<Step> equal;      // that agree in all
  std::vector<Step> different;  // the first one is told of below
  std::string what;             // "loss", "weights", or the first parameter that differs where both have them
};
// Of steps from `first` to `last`.
Comparison compareReceipts(const std::vector<Receipt>& a, const std::vector<Receipt>& b, Step first,
                           Step last);

}  // namespace cohort
