// Whether the numbers on this page were rounded to float16 when they were saved: then they come out again less exactly.
export const rounding = $state({ half: false });
