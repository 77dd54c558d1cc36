// Whether the saved numbers were rounded to float16: then recomputed values differ more.
export const rounding = $state({ half: false });
