// fetchDataset for any recipe: the tests have small ones of their own. Private to fetch.
#pragma once

#include "fetch/fetch.h"
#include "fetch/recipe.h"

namespace cohort {

FetchResult fetchRecipe(const DatasetRecipe& recipe, const FetchRequest& request, FetchObserver& observer);

}  // namespace cohort
