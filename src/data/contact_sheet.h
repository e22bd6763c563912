// One picture that shows what a set holds: a row for each class, samples of it side by side.
#pragma once

#include "data/image.h"
#include "data/image_set.h"

namespace cohort {

struct ContactSheetOptions {
  int rows = 10;     // at most; row r is class r
  int columns = 12;  // samples of a class, at most; spread evenly over the class, the first one among them
  int cell = 64;     // pixels; images are scaled to fit, their sides' ratio kept
  int margin = 4;    // pixels around each cell
};

// White, with as many rows and columns as are needed, in the set's own channels. Small images are magnified by whole numbers,
// so that their pixels stay squares. The same set and options give the same picture. IoError where an image is damaged.
Image contactSheet(const ImageSet& set, const ContactSheetOptions& options = {});

}  // namespace cohort
